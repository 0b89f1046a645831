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
    ALL_SLICES,
    KEYS,
    all_slices,
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
            seed: of the order.
            complete: whether all_slices() stands behind the arrays of KEYS.
        """
        expander = Expander(dataset)
        self._steps = dataset.steps
        self._episodes = [dataset[int(i)] for i in episodes]
        self._masks = [expander.masks(episode) for episode in self._episodes]
        self._looks_ahead = reward is not None
        self._added, self._counters, self._incumbents = [], [], []
        self._meta, self._next_slice = [], []
        for episode in self._episodes:
            shown = expander.observations(episode, last=True, copies=False)
            if "slice_view" not in shown:
                shown = in_full(shown)
            after = shown["machine_view"][1:].reshape(self._steps, dataset.machine.tiles, -1)
            self._added.append(after[np.arange(self._steps), episode.actions])
            self._counters.append(shown["slice_view"])
            self._incumbents.append(shown["incumbent_view"][0].copy())
            self._meta.append(shown["meta"][0].copy())
            self._next_slice.append(shown["slice"])
        self.shapes = tuple(full_shapes(expander.space))
        self._keys: tuple[str, ...] = KEYS
        if complete:
            self._keys = (*KEYS, ALL_SLICES)
            self.shapes += ((self._steps, self.shapes[KEYS.index("slice_view")][0] + 1),)
        time = np.arange(self._steps)
        self._ends = np.minimum(time + n_steps, self._steps)
        self._rewards = np.zeros((len(self._episodes), self._steps))
        if reward is not None:
            for row, episode in zip(self._rewards, self._episodes, strict=True):
                paid = rewards(episode, reward) / scale
                for t, end in enumerate(self._ends):
                    row[t] = paid[t:end] @ gamma ** np.arange(end - t)
        self._laps = Laps(np.arange(len(self)), seed)

    def __len__(self) -> int:
        return len(self._episodes) * self._steps

    def batch(self, update: int, size: int) -> Batch:
        """The transitions of an update: lap after lap through all of them, each lap shuffled."""
        return self.at(self._laps.batch(update, size))

    def at(self, rows: Sequence[int]) -> Batch:
        """Transitions by number: episode by episode, step by step."""
        size = len(rows)
        now = [np.zeros((size, *shape), dtype=np.float32) for shape in self.shapes]
        then = [np.zeros((size, *shape), dtype=np.float32) for shape in self.shapes]
        actions = np.empty((size, 1), dtype=np.float32)
        next_actions = np.zeros((size, 1), dtype=np.float32)
        paid = np.empty((size, 1), dtype=np.float32)
        terminals = np.zeros((size, 1), dtype=np.float32)
        intervals = np.ones((size, 1), dtype=np.float32)
        for i, row in enumerate(rows):
            number, step = divmod(int(row), self._steps)
            self._state(number, step, [array[i] for array in now])
            actions[i] = self._episodes[number].actions[step]
            paid[i] = self._rewards[number, step]
            end = int(self._ends[step])
            intervals[i] = end - step
            terminals[i] = end == self._steps
            if self._looks_ahead and end < self._steps:
                self._state(number, end, [array[i] for array in then])
                next_actions[i] = self._episodes[number].actions[end]
        return Batch(tuple(now), actions, paid, tuple(then), next_actions, terminals, intervals)

    def _state(self, number: int, step: int, out: Sequence[Array]) -> None:
        """Writes what the environment showed before a step."""
        part = dict(zip(self._keys, out, strict=True))
        placed = self._episodes[number].actions[:step]
        machine = part["machine_view"].reshape(-1, part["machine_view"].shape[-1])
        # Of equal tiles the last one is written last, and stays.
        machine[placed] = self._added[number][:step]
        part["view_mask"].reshape(-1)[placed] = 1
        part["position_mask"].reshape(-1)[:] = self._masks[number][step]
        part["incumbent_view"][:] = self._incumbents[number]
        part["meta"][:] = self._meta[number]
        part["slice"][:] = self._next_slice[number][step]
        counters = self._counters[number]
        part["slice_view"][:] = counters[step]
        if ALL_SLICES in part:
            # In the order of placement: networks do not see any.
            left = np.arange(self._steps) >= step
            part[ALL_SLICES][:] = all_slices(counters[: self._steps], left)
