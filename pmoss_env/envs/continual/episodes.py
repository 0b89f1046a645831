"""Episodes that advance together: their arrays and the native batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_env import _native
from pmoss_env.envs.continual.arguments import Arguments
from pmoss_env.envs.continual.live_batch import LiveBatch
from pmoss_env.envs.continual.observation import Observation
from pmoss_env.envs.spatial.observation import HIGHEST, processor_facts
from pmoss_env.machines import Machine
from pmoss_env.noise import THROUGHPUT_NOISE, Noise
from pmoss_env.types import COUNTERS, Int8Array

#: The keys of info, at reset and at every step.
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
#: Median and 99th percentile in ``last``; see LAST.
_RESPONSE_TIMES = slice(1, 3)
_COUNTS = ("epoch", "moves", "illegal_actions", "pending_slices")


class Episodes:
    """Rows of running indexes with the same arguments.

    Attributes:
        state: the arrays of observations, a row per episode; written by the batch.
        results: the arrays of the other results of a step, an element per episode.
        batch: the native batch, or a LiveBatch on other backends than analytic.

    Args:
        space: the observation space of one environment, a ``Dict``.
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
            key: np.zeros((rows, *cast(tuple[int, ...], box.shape)), box.dtype)
            for key, box in cast(spaces.Dict, space).items()
        }
        self.state["slice_mask"][:] = 1
        self.state["tile_mask"][:] = machine.worker_tiles
        self.results: dict[str, npt.NDArray[Any]] = {
            **{name: np.zeros(rows) for name in _NUMBERS},
            **{name: np.zeros(rows, dtype=np.int64) for name in _COUNTS},
            "truncated": np.zeros(rows, dtype=np.bool_),
        }
        # On other backends the batch is Python, and adds it itself.
        self._noise = float(arguments.noise) if arguments.backend == "analytic" else 0.0
        self._noise_seeds = [0] * rows
        # The arrays are never replaced, so the views of a row stay valid.
        self._views: dict[int, Observation] = {}
        self._info_results = [(key, self.results[key]) for key in INFO_KEYS[1:]]
        self.batch: Any = (
            LiveBatch(arguments, machine, self.state, self.results)
            if arguments.backend != "analytic"
            else _native.EpochBatch(
                _task(arguments, machine), rows, self.state, self.results, threads
            )
        )

    def start(
        self,
        row: int,
        index: _native.RunningIndex,
        course: Sequence[_native.Conditions],
        noise_seed: int,
    ) -> None:
        """Starts an episode on the analytic model and runs epoch 0.

        Args:
            course: conditions of all epochs, from 0.
        """
        self._noise_seeds[row] = noise_seed
        self.batch.start(row, index, course, noise_seed)
        self.add_noise((row,))

    def add_noise(self, rows: Iterable[int]) -> None:
        """Puts noise on response times, which the native batch shows as they are."""
        for row in rows if self._noise else ():
            if self.results["moves"][row]:  # the epoch has not begun
                continue
            seed = self._noise_seeds[row], int(self.results["epoch"][row])
            shown = self.state["last"][row, _RESPONSE_TIMES]
            shown *= Noise(self._noise, seed).response_time_factor()
            np.minimum(shown, HIGHEST, out=shown)

    @property
    def masks(self) -> Int8Array:
        """(rows, S + 1 + tiles) int8, the masks of both parts of an action, in a fresh array."""
        parts = self.state["slice_mask"], self.state["tile_mask"]
        return np.concatenate(parts, axis=1, dtype=np.int8)

    def observation(self, row: int) -> Observation:
        """The observation of a row, in fresh arrays."""
        return {key: shown.copy() for key, shown in self.views(row).items()}

    def views(self, row: int) -> Observation:
        """The observation of a row as views of the batch's arrays."""
        if row not in self._views:
            self._views[row] = {key: rows[row] for key, rows in self.state.items()}
        return self._views[row]

    def info(self, row: int) -> dict[str, Any]:
        """The info of a row, in fresh arrays."""
        shown = self.views(row)
        masks = np.concatenate([shown["slice_mask"], shown["tile_mask"]])
        return {
            "action_mask": masks,
            **{key: values.item(row) for key, values in self._info_results},
        }


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
