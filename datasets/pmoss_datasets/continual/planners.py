"""Planners of continual scheduling: the analytic model under co-tenants fitted to the counters."""

from __future__ import annotations

import numpy as np

from pmoss_datasets.continual.rounds import Move, RoundPolicy
from pmoss_datasets.continual.worlds import World, improved
from pmoss_env.envs.continual.drift import MOST
from pmoss_env.types import CoTenant, Float64Array, HardwareSnapshot, Int32Array

#: Shares below these are taken for noise.
_LEAST_BUSY, _LEAST_STREAM = 0.08, 0.05
#: Steps of the fit of memory streams, and how near the costs must come.
_FIT_STEPS, _FIT_NEAR = 6, 0.03
#: Periods that the seasonal planner looks for, and epochs that it judges them by.
_LONGEST_PERIOD, _JUDGED = 24, 12


class FittedPlanner(RoundPolicy):
    """Plans in the described machine, under the co-tenants that explain the last epoch.

    It knows what the slices of the workload instance ask for. Busy cores are those whose time runs
    faster than their work. Memory streams are fitted until misses cost what they did.

    Args:
        price: of a move between nodes, as a share of the throughput.
        seasonal: takes the co-tenants of one period before, of the period that foretold best.
    """

    def __init__(self, price: float = 0.002, *, seasonal: bool = False) -> None:
        super().__init__()
        self._price, self._seasonal = price, seasonal

    def start(self) -> None:
        """See RoundPolicy."""
        machine = self.env.machine
        self._world = World(self.env.session)
        self._busy = np.zeros(machine.cores)
        self._streams = np.zeros(machine.nodes)
        self._slope = np.full(machine.nodes, 2.0)
        self._past: list[Float64Array] = []

    def plan(self, cores: Int32Array) -> list[Move]:
        """Fits, foretells, and searches."""
        session = self.env.session
        shift = session.drift.conditions(session.epoch).shift
        self._fit(session.cores_seen, session.snapshot, shift)
        foretold = np.concatenate([self._busy, self._streams])
        if self._seasonal:
            self._past.append(foretold)
            foretold = self._season()
        self._world.believe(self._co_tenants(foretold), shift)
        return improved([self._world], cores, self.most, self._price)

    def _co_tenants(self, shares: Float64Array) -> list[CoTenant]:
        cores = self.env.machine.cores
        busy, streams = shares[:cores], shares[cores:]
        return [
            *(CoTenant("busy_core", int(c), float(busy[c])) for c in np.flatnonzero(busy)),
            *(
                CoTenant("memory_stream", int(n), float(streams[n]))
                for n in np.flatnonzero(streams)
            ),
        ]

    def _fit(self, cores: Int32Array, snapshot: HardwareSnapshot, shift: int) -> None:
        """What co-tenants took in the last epoch; where nothing ran, what they took before.

        Args:
            cores: (slices,) that served in it.
            snapshot: of it.
            shift: of the load.
        """
        machine = self.env.machine
        elapsed = np.bincount(cores, snapshot.counter("elapsed_us"), machine.cores)
        work = np.bincount(cores, snapshot.counter("task_clock_us"), machine.cores)
        lost = 1.0 - np.divide(work, elapsed, out=np.ones_like(work), where=elapsed > 0)
        lost = np.where(lost < _LEAST_BUSY, 0.0, np.minimum(lost, MOST))
        self._busy = np.where(elapsed > 0, lost, self._busy)
        nodes = machine.node_of_core[cores]
        ran = np.bincount(nodes, minlength=machine.nodes) > 0
        seen = _cost_of_misses(
            nodes, machine.nodes, snapshot.counter("cycles_l3_miss"), snapshot.counter("llc_misses")
        )
        streams = self._streams.copy()
        best, least = streams, np.inf
        before: tuple[Float64Array, Float64Array] | None = None
        for _ in range(_FIT_STEPS):
            self._world.believe(self._co_tenants(np.concatenate([self._busy, streams])), shift)
            self._world.place(cores)
            counted = self._world.counters("cycles_l3_miss", "llc_misses")
            cost = _cost_of_misses(nodes, machine.nodes, *counted)
            ratio = np.maximum(seen, 1e-9) / np.maximum(cost, 1e-9)
            off = np.where(ran, np.log(ratio), 0.0)
            if np.abs(off).sum() < least:
                best, least = streams.copy(), float(np.abs(off).sum())
            if np.abs(off).max() < _FIT_NEAR:
                break
            if before is not None:
                change = streams - before[0]
                moved = np.abs(change) > 0.01
                rise = np.log(np.maximum(cost, 1e-9) / np.maximum(before[1], 1e-9))
                slope = np.where(moved, rise / np.where(moved, change, 1.0), self._slope)
                self._slope = np.clip(slope, 0.5, 20.0)
            before = streams.copy(), cost
            streams = np.clip(streams + np.clip(off / self._slope, -0.3, 0.3), 0.0, MOST)
        self._streams = np.where(best < _LEAST_STREAM, 0.0, best)

    def _season(self) -> Float64Array:
        """What was one period before the next epoch; now, where no period foretold better."""
        past, now = self._past, len(self._past)
        best, found = np.inf, 1
        for period in range(1, min(_LONGEST_PERIOD, now - 3) + 1):
            judged = range(max(period, now - _JUDGED), now)
            wrong = float(np.mean([np.abs(past[t] - past[t - period]).mean() for t in judged]))
            # A longer period must be clearly better.
            wrong *= 1.0 if period == 1 else 1.1
            if wrong < best:
                best, found = wrong, period
        return past[now - found]


def _cost_of_misses(
    nodes: Int32Array, count: int, cycles: Float64Array, misses: Float64Array
) -> Float64Array:
    """(nodes,) cycles of a miss of the slices that each node's cores serve."""
    spent = np.bincount(nodes, cycles, count)
    return spent / np.maximum(np.bincount(nodes, misses, count), 1e-9)
