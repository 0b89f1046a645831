"""The methods of the native batch for an index on this host or on the simulated server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.envs.continual.arguments import Arguments
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.envs.continual.observation import Observation
from pmoss_env.envs.continual.running import Epoch
from pmoss_env.envs.continual.simulated_index import SimulatedIndex
from pmoss_env.envs.spatial.observation import HIGHEST, observed_counters, observed_meta
from pmoss_env.machines import Machine
from pmoss_env.noise import Noise
from pmoss_env.types import Float64Array, HardwareSnapshot, Int32Array


class LiveBatch:
    """A single row, stepped in Python, which is fast compared with its epochs.

    native/environment/epochs.hpp describes the arrays.

    Args:
        state: the arrays of observations, with one row.
        results: the arrays of the other results of a step, with one element.
    """

    snapshot: HardwareSnapshot

    def __init__(
        self,
        arguments: Arguments,
        machine: Machine,
        state: Observation,
        results: dict[str, npt.NDArray[Any]],
    ) -> None:
        self._arguments, self._machine = arguments, machine
        self._state, self._results = state, results
        self._timeline: list[float] = []
        self._moves: list[int] = []

    def start(
        self, index: LiveIndex | SimulatedIndex, course: Sequence[Conditions], noise_seed: int
    ) -> None:
        """Runs epoch 0 of an index that is being served.

        Args:
            course: conditions of all epochs, from 0.
        """
        self._index, self._course, self._noise_seed = index, course, noise_seed
        self._timeline, self._moves = [], []
        self._cores = index.cores.copy()
        for name in ("epoch", "queries", "paid", "rewards", "truncated", "illegal_actions"):
            self._results[name][0] = 0
        self._run()
        self._show_round()

    def step_one(self, environment: int, slice_: int, tile: int) -> None:
        """Moves a slice, or runs the next epoch; the action is valid."""
        state, results = self._state, self._results
        results["rewards"][0], results["truncated"][0] = 0.0, False
        if slice_ < self._cores.size:
            limit = self._arguments.moves_per_epoch
            results["moves"][0] += 1
            if state["slice_mask"][0, slice_] and state["tile_mask"][0, tile]:
                self._index.move(slice_, int(self._machine.core_of_tile[tile]))
                state["slice_mask"][0, slice_] = 0
                state["slice_tiles"][0, slice_] = tile
            else:
                results["illegal_actions"][0] += 1
            state["moves_left"][0] = (limit - results["moves"][0]) / limit
            if results["moves"][0] < limit:
                return
        results["epoch"][0] += 1
        epoch = self._run()
        reward = epoch.within - self._arguments.price_per_gb * results["moved_gb"][0]
        results["queries"][0] += epoch.queries
        results["rewards"][0] = reward
        results["paid"][0] += reward
        results["truncated"][0] = results["epoch"][0] >= self._arguments.epochs
        self._show_round()
        if results["truncated"][0]:
            self._index.stop()

    def cores(self, environment: int) -> Int32Array:
        """(slices,) int32, the cores that served in the last epoch."""
        return self._cores

    def timeline(self, environment: int) -> Float64Array:
        """(epochs + 1,) float64, Mq/s of epoch 0 and of all epochs since."""
        return np.array(self._timeline)

    def moves(self, environment: int) -> Int32Array:
        """(epochs + 1,) int32, number of slices moved before each of them."""
        return np.array(self._moves, dtype=np.int32)

    def _run(self) -> Epoch:
        arguments, index, results = self._arguments, self._index, self._results
        seconds = float(arguments.epoch_seconds)
        number = int(results["epoch"][0])
        epoch = index.run(self._course[number], seconds)
        moved = index.cores != self._cores
        self._cores = index.cores.copy()
        noise = Noise(float(arguments.noise), (self._noise_seed, number))
        shown = noise.response_times(noise.snapshot(epoch.snapshot))
        self.snapshot = shown.limited_to(arguments.counters)
        results["throughput"][0] = epoch.queries / seconds
        results["p99_us"][0] = epoch.snapshot.latency_p99_us
        results["moved_gb"][0] = epoch.moved_bytes * 1e-9
        self._timeline.append(float(results["throughput"][0]))
        self._moves.append(int(np.count_nonzero(moved)))
        self._state["moved"][0] = moved
        self._show_epoch()
        return epoch

    def _show_epoch(self) -> None:
        machine, snapshot, state = self._machine, self.snapshot, self._state
        counters = observed_counters(snapshot)
        count = counters.shape[1]
        places = machine.tile_of_core[self._cores][:, None] * count + np.arange(count)
        per_tile = np.bincount(places.ravel(), counters.ravel(), machine.tiles * count)
        state["slice_counters"][0] = counters
        state["core_counters"][0] = per_tile.reshape(state["core_counters"][0].shape)
        state["meta"][0] = observed_meta(machine, snapshot)
        moved_gb = self._results["moved_gb"][0]
        last = [snapshot.throughput, snapshot.latency_p50_us, snapshot.latency_p99_us, moved_gb]
        state["last"][0] = np.minimum(np.nan_to_num(last), HIGHEST)

    def _show_round(self) -> None:
        state, index, results = self._state, self._index, self._results
        results["moves"][0], results["pending_slices"][0] = 0, index.copies
        state["slice_mask"][0] = 1
        state["moves_left"][0] = 1.0
        state["epoch"][0] = results["epoch"][0] / self._arguments.epochs
        state["slice_tiles"][0] = self._machine.tile_of_core[index.cores]
        state["slice_nodes"][0] = index.nodes
        state["pending"][0] = index.pending
