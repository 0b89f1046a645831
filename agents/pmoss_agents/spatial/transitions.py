"""Single steps of stored episodes for agents that learn from (state, action, reward, state).

An expanded episode takes megabytes, nearly all of them repetitions: a step changes the counters of
one tile. Here only that tile's new counters are kept. States are put together when a batch asks for
them, bit for bit as the environment showed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.spatial.episodes import Laps
from pmoss_agents.spatial.observations import (
    KEYS,
    full_shapes,
    in_full,
)
from pmoss_datasets import Dataset
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.types import Float32Array


@dataclass(frozen=True)
class Batch:
    """B transitions, all float32.

    Attributes:
        observations: (B, ...) arrays in the order of KEYS, and perhaps all_slices().
        actions: (B, 1) tiles.
        rewards: (B, 1) discounted sums over the steps of the transition.
        next_observations: as ``observations``; zeros, masks included, after the last step.
        next_actions: (B, 1) tiles that the data's policy chose there; 0 after the last step.
        terminals: (B, 1) 1 = the episode ended in this transition.
        intervals: (B, 1) steps of the transition.
    """

    observations: tuple[Float32Array, ...]
    actions: Float32Array
    rewards: Float32Array
    next_observations: tuple[Float32Array, ...]
    next_actions: Float32Array
    terminals: Float32Array
    intervals: Float32Array


class Transitions:
    """All steps of some episodes, in an order that depends on the seed and the lap alone."""

    def __init__(
        self,
        dataset: Dataset,
        episodes: Array,
        *,
        reward: Reward | None,
        n_steps: int = 1,
        gamma: float = 1.0,
        scale: float = 1.0,
        seed: int = 0,
        complete: bool = False,
    ) -> None:
        """Reads the episodes.

        Args:
            reward: its mode; None: no rewards and no next states, for imitation.
            n_steps: steps of a transition, fewer where the episode ends.
            scale: what rewards are divided by, Mq/s.
            complete: whether all_slices() stands behind the arrays of KEYS.
        """
        expander = Expander(dataset)
        count, steps, tiles = len(episodes), dataset.steps, dataset.machine.tiles
        self._steps = steps
        self._looks_ahead = reward is not None
        self._shapes = full_shapes(expander.space)
        by_key = dict(zip(KEYS, self._shapes, strict=True))
        (counters,), numbers = by_key["slice_view"], np.arange(steps)
        self._actions = np.empty((count, steps), dtype=np.int64)
        self._masks = np.empty((count, steps, tiles), dtype=np.int8)
        # What a step shows on its tile; behind the last step, what an empty tile shows.
        self._added = np.zeros((count, steps + 1, counters), dtype=np.float32)
        # The step that each tile shows before a step; the number of steps for an empty one.
        self._latest = np.empty((count, steps, tiles), dtype=np.min_scalar_type(steps))
        # As all_slices(), in the order of placement: networks do not see any.
        self._slices = np.zeros((count, steps, counters + 1), dtype=np.float32)
        self._next_slice = np.empty((count, steps, 1), dtype=np.float32)
        self._incumbents = np.empty((count, *by_key["incumbent_view"]), dtype=np.float32)
        self._meta = np.empty((count, *by_key["meta"]), dtype=np.float32)
        self._rewards = np.zeros((count, steps))
        self._ends = np.minimum(numbers + n_steps, steps)
        for row, number in enumerate(episodes):
            episode = dataset[int(number)]
            actions = self._actions[row] = episode.actions
            self._masks[row] = expander.masks(episode)[:steps]
            shown = expander.observations(episode, last=True, copies=False)
            if "slice_view" not in shown:
                shown = in_full(shown)
            after = shown["machine_view"][1:].reshape(steps, tiles, -1)
            self._added[row, :steps] = after[numbers, actions]
            placed = np.full((steps, tiles), -1)
            placed[numbers[1:], actions[:-1]] = numbers[:-1]
            latest = np.maximum.accumulate(placed, axis=0)
            self._latest[row] = np.where(latest < 0, steps, latest)
            self._slices[row, :, :-1] = shown["slice_view"][:steps]
            self._next_slice[row] = shown["slice"][:steps].reshape(steps, 1)
            self._incumbents[row] = shown["incumbent_view"][0]
            self._meta[row] = shown["meta"][0]
            if reward is not None:
                step_rewards = rewards(episode, reward) / scale
                for t, end in enumerate(self._ends):
                    self._rewards[row, t] = step_rewards[t:end] @ gamma ** np.arange(end - t)
        self._complete = complete
        self.shapes = (*self._shapes, (steps, counters + 1)) if complete else (*self._shapes,)
        self._laps = Laps(np.arange(len(self)), seed)

    def __len__(self) -> int:
        return self._actions.size

    def batch(self, update: int, size: int) -> Batch:
        """The transitions of an update: lap after lap through all of them, each lap shuffled."""
        return self.at(self._laps.batch(update, size))

    def at(self, rows: Sequence[int]) -> Batch:
        """Transitions by number: episode by episode, step by step."""
        number, step = np.divmod(np.asarray(rows), self._steps)
        end = self._ends[step]
        ended = end == self._steps
        now = self._states(number, step)
        if self._looks_ahead:
            later = np.where(ended, 0, end)
            next_actions = np.where(ended, 0, self._actions[number, later])
            then = self._states(number, later)
            for array in then:
                array[ended] = 0
        else:
            next_actions = np.zeros_like(end)
            then = [np.zeros(array.shape, dtype=np.float32) for array in now]
        columns = (self._actions[number, step], self._rewards[number, step])
        actions, discounted, following, terminals, intervals = (
            column.astype(np.float32)[:, None]
            for column in (*columns, next_actions, ended, end - step)
        )
        return Batch(tuple(now), actions, discounted, tuple(then), following, terminals, intervals)

    def _states(self, number: Array, step: Array) -> list[Array]:
        """What the environment showed before steps of episodes: arrays in the order of KEYS."""
        latest = self._latest[number, step]
        rows = number[:, None] * (self._steps + 1) + latest
        by_key = {
            "incumbent_view": self._incumbents[number],
            "machine_view": self._added.reshape(-1, self._added.shape[-1]).take(rows, axis=0),
            "meta": self._meta[number],
            "position_mask": self._masks[number, step].astype(np.float32),
            "slice": self._next_slice[number, step],
            "slice_view": self._slices[number, step, :-1],
            "view_mask": (latest < self._steps).astype(np.float32),
        }
        states = [
            by_key[key].reshape(len(number), *shape)
            for key, shape in zip(KEYS, self._shapes, strict=True)
        ]
        if self._complete:
            states.append(self._slices[number])
            states[-1][..., -1] = np.arange(self._steps) >= step[:, None]
        return states
