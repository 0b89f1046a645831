"""The observation space of a running index.

native/environment/epochs.hpp describes how steps write observations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_env.envs.spatial.observation import HIGHEST, meta_names, places
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTERS

Observation = dict[str, npt.NDArray[Any]]
#: The entries of ``last``.
LAST = ("throughput", "p50_us", "p99_us", "moved_gb")


def observation_space(machine: Machine, slices: int) -> spaces.Dict:
    """The observation space, see ``ContinualSchedulingEnv``."""
    grid = (machine.rows, machine.cols)

    def box(*shape: int, high: float = HIGHEST) -> spaces.Box:
        return spaces.Box(0.0, high, shape, np.float32)

    return spaces.Dict(
        {
            "slice_counters": box(slices, len(COUNTERS)),
            "core_counters": box(*grid, len(COUNTERS)),
            "meta": box(len(meta_names(machine))),
            "last": box(len(LAST)),
            "slice_tiles": places(machine.tiles, slices),
            "slice_nodes": places(machine.nodes, slices),
            "pending": box(slices, high=1.0),
            "moved": spaces.Box(0, 1, (slices,), np.int8),
            "slice_mask": spaces.Box(0, 1, (slices + 1,), np.int8),
            "tile_mask": spaces.Box(0, 1, (machine.tiles,), np.int8),
            "epoch": box(1, high=1.0),
            "moves_left": box(1, high=1.0),
        }
    )
