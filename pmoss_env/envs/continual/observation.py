"""What a policy sees of a running index: the observation space and its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_env.envs.spatial.observation import (
    HIGHEST,
    meta_names,
    observed_counters,
    observed_meta,
)
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTERS, Float32Array, HardwareSnapshot, Int32Array

Observation = dict[str, npt.NDArray[Any]]
#: The entries of ``last``.
LAST = ("throughput", "p50_us", "p99_us", "moved_gb")


def observation_space(machine: Machine, slices: int) -> spaces.Dict:
    """The observation space, see ``ContinualSchedulingEnv``."""
    grid = (machine.rows, machine.cols)

    def box(*shape: int, most: float = HIGHEST) -> spaces.Box:
        return spaces.Box(0.0, most, shape, np.float32)

    return spaces.Dict(
        {
            "slice_counters": box(slices, len(COUNTERS)),
            "core_counters": box(*grid, len(COUNTERS)),
            "meta": box(len(meta_names(machine))),
            "last": box(len(LAST)),
            "slice_tiles": spaces.Box(0, machine.tiles - 1, (slices,), np.int32),
            "slice_nodes": spaces.Box(0, machine.nodes - 1, (slices,), np.int32),
            "pending": box(slices, most=1.0),
            "moved": spaces.Box(0, 1, (slices,), np.int8),
            "slice_mask": spaces.Box(0, 1, (slices + 1,), np.int8),
            "tile_mask": spaces.Box(0, 1, (machine.tiles,), np.int8),
            "epoch": box(1, most=1.0),
            "moves_left": box(1, most=1.0),
        }
    )


@dataclass(frozen=True)
class Seen:
    """What the last epoch showed.

    Attributes:
        slice_counters: (slices, H) float32, million counts per second.
        core_counters: (r, c, H) float32, those of the slices that each core served.
        meta: (M,) float32.
        last: (4,) float32, as LAST says.
    """

    slice_counters: Float32Array
    core_counters: Float32Array
    meta: Float32Array
    last: Float32Array

    @classmethod
    def of(
        cls, machine: Machine, snapshot: HardwareSnapshot, cores: Int32Array, moved_gb: float
    ) -> Seen:
        """The arrays of an epoch.

        Args:
            machine: gives the grid.
            snapshot: of the epoch, with its noise.
            cores: (slices,) that served the slices in it.
            moved_gb: copied in it.
        """
        counters = observed_counters(snapshot)
        count = counters.shape[1]
        places = machine.tile_of_core[cores][:, None] * count + np.arange(count)
        per_tile = np.bincount(places.ravel(), counters.ravel(), machine.tiles * count)
        last = [snapshot.throughput, snapshot.latency_p50_us, snapshot.latency_p99_us, moved_gb]
        return cls(
            counters,
            per_tile.astype(np.float32).reshape(machine.rows, machine.cols, count),
            observed_meta(machine, snapshot),
            np.minimum(np.nan_to_num(last), HIGHEST).astype(np.float32),
        )
