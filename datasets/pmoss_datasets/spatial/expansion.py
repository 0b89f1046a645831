"""From a stored episode to what an agent saw: observations, masks, rewards and returns-to-go.

Bit for bit what the live environment returns, computed for all steps at once.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from gymnasium import spaces

from pmoss_datasets.schema import Array
from pmoss_datasets.spatial.schema import Episode, SpatialMetadata
from pmoss_datasets.storage import Dataset
from pmoss_env.envs.spatial.env import REWARDS
from pmoss_env.envs.spatial.observation import ObservationBuilder, PositionMask
from pmoss_env.errors import DatasetError, UnknownNameError
from pmoss_env.types import Float32Array, Float64Array, Int8Array


class Expander:
    """Expands episodes of one dataset. Holds the machine's arrays, so make it once."""

    def __init__(self, dataset: Dataset) -> None:
        kwargs = dataset.metadata.env_kwargs
        self._dataset = dataset
        self._machine = dataset.machine
        self._slices = dataset.steps
        self._builder = ObservationBuilder(
            dataset.machine, dataset.steps, kwargs.get("observation", "full")
        )
        constraints = kwargs.get("constraints")
        PositionMask(dataset.machine, dataset.steps, constraints)  # refuses what it cannot expand
        self._most: int | None = (constraints or {}).get("max_slices_per_core")

    @property
    def space(self) -> spaces.Dict:
        """The environment's observation space."""
        return self._builder.space

    def masks(self, episode: Episode, *, last: bool = False) -> Int8Array:
        """(T, r * c) int8, or (T + 1, r * c) with ``last``: 1 = a tile that may take the slice."""
        steps = self._slices + last
        mask = np.repeat(self._machine.worker_tiles[None].astype(np.int8), steps, axis=0)
        if self._most is not None:
            placed = np.zeros((self._slices + 1, self._machine.tiles), dtype=np.int32)
            placed[np.arange(1, self._slices + 1), episode.actions] = 1
            mask[np.cumsum(placed, axis=0)[:steps] >= self._most] = 0
        return mask

    def observations(
        self, episode: Episode, *, last: bool = False, copies: bool = True
    ) -> dict[str, Array]:
        """What the environment showed at each step.

        Args:
            episode: of this dataset.
            last: also the observation after the last step: T + 1 rows in place of T.
            copies: False returns ``meta`` and ``incumbent_view``, which never change inside an
                episode, as read-only views of one row in place of T copies.

        Returns:
            The keys of the environment's observation space with a leading step axis.
        """
        steps = self._slices + last
        builder = self._builder
        builder.start(
            episode.incumbent,
            episode.snapshot("incumbent", cast(SpatialMetadata, self._dataset.metadata)),
            episode.order.astype(np.int32),
        )
        masks = self.masks(episode, last=last)
        first = builder.observe(masks[0].astype(np.bool_))
        grid = first["view_mask"].shape
        counters = self._placed_counters(episode)

        # Adding along the step axis in float32 is the same sum in the same order as placing.
        added = np.zeros((steps, self._machine.tiles, counters.shape[1]), dtype=np.float32)
        placed = np.zeros((steps, self._machine.tiles), dtype=np.int8)
        past = np.arange(1, steps)
        added[past, episode.actions[: steps - 1]] = counters[: steps - 1]
        placed[past, episode.actions[: steps - 1]] = 1
        np.cumsum(added, axis=0, out=added)
        np.maximum.accumulate(placed, axis=0, out=placed)

        next_slice = np.append(episode.order, self._slices)[:steps]
        result: dict[str, Array] = {
            "view_mask": placed.reshape(steps, *grid),
            "position_mask": masks.reshape(steps, *grid),
            "machine_view": added.reshape(steps, *grid, -1),
            "meta": np.broadcast_to(first["meta"], (steps, *first["meta"].shape)),
            "slice": (next_slice[:, None] / self._slices).astype(np.float32),
        }
        if "slice_view" in first:
            view = np.concatenate([counters, np.zeros_like(counters[:1])])[:steps]
            result["slice_view"] = view
            incumbent = first["incumbent_view"]
            result["incumbent_view"] = np.broadcast_to(incumbent, (steps, *incumbent.shape))
        if copies:
            result = {key: np.ascontiguousarray(value) for key, value in result.items()}
        return result

    @property
    def actions(self) -> int:
        """How many actions there are: one per tile, r * c."""
        return self._machine.tiles

    def _placed_counters(self, episode: Episode) -> Float32Array:
        """(T, H) counters of the slices in placement order, absent counters 0."""
        counters = episode.incumbent_counters[episode.order].copy()
        counters[:, episode.incumbent_running_ratio <= 0] = 0
        return counters


def rewards(episode: Episode, mode: str) -> Float64Array:
    """(T,) float64, million queries per second: the environment's reward of each step.

    "slice" is the paper's: each slice's own share of the final throughput, known in hindsight.

    Raises:
        UnknownNameError: another mode.
        DatasetError: "improvement" of an episode in which not every step was measured.
    """
    if mode == "improvement":
        if np.isnan(episode.throughput).any():
            raise DatasetError(
                "throughput: not measured after every step, so reward mode 'improvement' is "
                "unknown; use 'terminal' or 'slice'"
            )
        before = np.concatenate([[episode.incumbent_throughput], episode.throughput[:-1]])
        gains: Float64Array = episode.throughput - before
        return gains
    if mode == "slice":
        shares: Float64Array = episode.final_slice_throughput[episode.order]
        return shares
    if mode == "terminal":
        result = np.zeros(episode.slices)
        result[-1] = episode.final_throughput
        return result
    raise UnknownNameError("reward", mode, REWARDS)


def returns_to_go(episode: Episode, mode: str) -> Float64Array:
    """(T,) float64, million queries per second: the sum of this step's and all later rewards."""
    # The telescoped sum, without the rounding of T additions.
    if mode == "improvement":
        rewards(episode, mode)  # refuses episodes in which a step was not measured
        before = np.concatenate([[episode.incumbent_throughput], episode.throughput[:-1]])
        return episode.final_throughput - before
    return np.cumsum(rewards(episode, mode)[::-1])[::-1].copy()
