"""Episodes that advance together: the arrays of their steps, and the native batch of them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_env import _native
from pmoss_env.envs.continual.arguments import Arguments
from pmoss_env.envs.continual.live_batch import LiveBatch
from pmoss_env.envs.continual.observation import Observation
from pmoss_env.envs.spatial.observation import processor_facts
from pmoss_env.machines import Machine
from pmoss_env.noise import THROUGHPUT_NOISE
from pmoss_env.types import COUNTERS, Int8Array

#: What info holds, at reset and at every step.
INFO_KEYS = (
    "action_mask",
    "illegal_actions",
    "epoch",
    "moves",
    "queries",
    "paid",
    "throughput",
    "p99_us",
    "moved_gb",
    "pending_slices",
)
_NUMBERS = ("rewards", "queries", "paid", "throughput", "p99_us", "moved_gb")
_COUNTS = ("epoch", "moves", "illegal_actions", "pending_slices")


class Episodes:
    """Rows of running indexes under the same arguments.

    Attributes:
        state: the arrays of observations that the batch writes, a row per episode.
        results: the arrays of what else a step gives, an element per episode.
        batch: the native batch, or what stands for it on another backend than analytic.

    Args:
        arguments: of every environment.
        machine: as described.
        space: the observation space of one environment, a ``Dict``.
        rows: how many episodes.
        threads: how many native threads step them.
    """

    def __init__(
        self,
        arguments: Arguments,
        machine: Machine,
        space: spaces.Space[Any],
        rows: int = 1,
        threads: int = 1,
    ) -> None:
        self.state: Observation = {
            key: np.zeros((rows, *cast(tuple[int, ...], one.shape)), one.dtype)
            for key, one in cast(spaces.Dict, space).items()
        }
        self.state["slice_mask"][:] = 1
        self.state["tile_mask"][:] = machine.worker_tiles
        self.results: dict[str, npt.NDArray[Any]] = {
            **{name: np.zeros(rows) for name in _NUMBERS},
            **{name: np.zeros(rows, dtype=np.int64) for name in _COUNTS},
            "truncated": np.zeros(rows, dtype=np.bool_),
        }
        # Arrays are never replaced, so the views of a row hold for good: see views().
        self._views: dict[int, Observation] = {}
        self._told = [(key, self.results[key]) for key in INFO_KEYS[1:]]
        self.batch: Any = (
            LiveBatch(arguments, machine, self.state, self.results)
            if arguments.backend != "analytic"
            else _native.EpochBatch(
                _task(arguments, machine), rows, self.state, self.results, threads
            )
        )

    @property
    def masks(self) -> Int8Array:
        """(rows, S + 1 + tiles) int8, the masks of both parts of an action, in a fresh array."""
        parts = self.state["slice_mask"], self.state["tile_mask"]
        return np.concatenate(parts, axis=1, dtype=np.int8)

    def observation(self, row: int) -> Observation:
        """What one environment shows, in fresh arrays."""
        return {key: shown.copy() for key, shown in self.views(row).items()}

    def views(self, row: int) -> Observation:
        """What the batch writes of one environment, not copied."""
        if row not in self._views:
            self._views[row] = {key: rows[row] for key, rows in self.state.items()}
        return self._views[row]

    def info(self, row: int) -> dict[str, Any]:
        """The info of one environment, in fresh arrays."""
        shown = self.views(row)
        masks = np.concatenate([shown["slice_mask"], shown["tile_mask"]])
        return {"action_mask": masks, **{key: told.item(row) for key, told in self._told}}


def _task(arguments: Arguments, machine: Machine) -> _native.EpochTask:
    sees_pmu = arguments.counters == "all"
    return _native.EpochTask(
        slices=arguments.slices,
        nodes=machine.nodes,
        sockets=machine.sockets,
        epochs=arguments.epochs,
        moves_per_epoch=arguments.moves_per_epoch,
        seconds=float(arguments.epoch_seconds),
        limit_us=float(arguments.p99_limit_us or 0.0),
        price_per_gb=float(arguments.price_per_gb),
        noise=float(arguments.noise),
        throughput_variation=THROUGHPUT_NOISE,
        variations=[counter.noise for counter in COUNTERS],
        seen=[int(sees_pmu or counter.source != "hardware") for counter in COUNTERS],
        sees_offcore=sees_pmu,
        facts=processor_facts(machine),
        core_of_tile=machine.core_of_tile.tolist(),
        tile_of_core=machine.tile_of_core.tolist(),
        worker_tiles=machine.worker_tiles.tolist(),
    )
