"""A believed machine, whose model predicts what schedules would serve in the next epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pmoss_datasets.continual.rounds import Move
from pmoss_env import _native
from pmoss_env.backends.native_forms import native_interference, native_machine
from pmoss_env.backends.profilers import make_profiler
from pmoss_env.baselines.search import changes_of
from pmoss_env.envs.continual.drift import DEFAULT_DEMAND, Demand
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant, Float64Array, Int32Array

#: Schedules that a search asks for in each world.
_EVALUATIONS = 120
#: Changes that are tried around one schedule.
_TRIED = 12
#: Full cores that are looked at where the fullest one cannot be relieved.
_LEVELS = 3
#: What a move within a node costs, of one between nodes.
_NEAR = 0.25


class World:
    """The analytic model under believed co-tenants.

    Args:
        session: of the episode, for machine, load and workload instance.
        native: the machine as it really is; as described if None.
    """

    def __init__(self, session: Any, native: _native.MachineModel | None = None) -> None:
        self.machine = session.machine
        self.native = native or native_machine(self.machine)
        load = session.backend.load
        self._model = _native.AnalyticModel(
            self.native,
            load=load.kind,
            outstanding_per_worker=load.outstanding_per_worker,
            offered_mq_per_s=load.offered_mq_per_s,
        )
        self._profilers = [
            make_profiler(workload, session.slices, None) for workload in session.workloads
        ]
        self._seed = session.workload_seed
        self._slices = session.slices
        self._asked = DEFAULT_DEMAND
        self._ask_mix(self._asked.mix)
        self._node_of_core = self.machine.node_of_core.tolist()

    def believe(self, co_tenants: Iterable[CoTenant], asked: Demand = DEFAULT_DEMAND) -> None:
        """Sets the assumed conditions of the next epoch; call place() next."""
        if asked.mix != self._asked.mix:
            self._ask_mix(asked.mix)
        self._model.offer(asked.load)
        self._model.set_interference(native_interference(co_tenants, self.native))
        self._asked = asked

    def _ask_mix(self, mix: int) -> None:
        profiles = self._profilers[mix].profiles(self._seed)
        self._model.set_instance(profiles, _native.Interference())

    def place(self, cores: Int32Array) -> float:
        """Makes a schedule the current one, its data at its cores; Mq/s."""
        slots = np.empty_like(cores)
        slots[np.roll(np.arange(self._slices), self._asked.shift)] = cores
        return float(self._model.place(slots, self.machine.node_of_core[slots]))

    def move(self, slice_: int, core: int) -> float:
        """Moves one slice and its data; Mq/s."""
        slot = (slice_ - self._asked.shift) % self._slices
        return self._model.move(slot, core, self._node_of_core[core])

    def counters(self, *names: str) -> tuple[Float64Array, ...]:
        """(slices,) of each counter under the current schedule."""
        counters = self._model.snapshot()["counters"]
        return tuple(np.roll(np.asarray(counters[name]), self._asked.shift) for name in names)


def free_time(machine: Machine, co_tenants: Iterable[CoTenant]) -> Float64Array:
    """(workers,) share of its time that each worker core has; each co-tenant takes of the rest."""
    free = np.ones(machine.cores)
    for tenant in co_tenants:
        if tenant.family == "busy_core":
            free[tenant.target] *= 1.0 - tenant.strength
    return free[machine.workers]


def improved(
    worlds: Sequence[World],
    cores: Int32Array,
    most_moves: int,
    price: float,
) -> list[Move]:
    """Moves that serve more in the mean of several worlds, by local search.

    Args:
        worlds: equally likely.
        cores: (slices,) that serve the slices now.
        price: of a move between nodes, as a share of the throughput; within a node a quarter.

    Returns:
        At most ``most_moves`` moves, in the order in which they were found; a slice moves once.
    """
    search = _Search(worlds, cores, price)
    while search.used < _EVALUATIONS and search.moves < most_moves:
        if not any(search.relieve(level, most_moves) for level in range(_LEVELS)):
            break
    return [(int(s), int(search.now[s])) for s in search.order if search.now[s] != cores[s]]


class _Search:
    def __init__(self, worlds: Sequence[World], cores: Int32Array, price: float) -> None:
        self._worlds, self._before, self._price = worlds, cores, price
        self._machine = worlds[0].machine
        self._node = self._machine.node_of_core
        self.now = cores.copy()
        self.order: list[int] = []
        self._start = self._worth = float(np.mean([world.place(cores) for world in worlds]))
        self.used = 1
        self._turn = 0

    @property
    def moves(self) -> int:
        """Number of moved slices."""
        return int(np.count_nonzero(self.now != self._before))

    def _cost(self) -> float:
        moved = self.now != self._before
        far = moved & (self._node[self.now] != self._node[self._before])
        count = np.count_nonzero(far) + _NEAR * (np.count_nonzero(moved) - np.count_nonzero(far))
        return float(self._price * count * self._start)

    def relieve(self, level: int, most_moves: int) -> bool:
        """Tries changes that take work off a full core; whether one was kept."""
        world = self._worlds[self._turn % len(self._worlds)]
        self._turn += 1
        for steps in self._changes(world, level):
            if self.used >= _EVALUATIONS:
                return False
            old = [(slice_, int(self.now[slice_])) for slice_, _ in steps]
            for slice_, core in steps:
                self.now[slice_] = core
            if self.moves <= most_moves:
                self.used += 1
                worth = self._ask(steps) - self._cost()
                if worth > self._worth * (1.0 + 1e-6):
                    self._worth = worth
                    self.order += [s for s, _ in steps if s not in self.order]
                    return True
                self._ask(old)
            for slice_, core in old:
                self.now[slice_] = core
        return False

    def _ask(self, steps: Sequence[Move]) -> float:
        total = 0.0
        for world in self._worlds:
            throughput = 0.0
            for slice_, core in steps:
                throughput = world.move(slice_, core)
            total += throughput
        return total / len(self._worlds)

    def _changes(self, world: World, level: int) -> list[list[Move]]:
        """Moves and swaps off one of the fullest cores, the most promising first."""
        elapsed, work = world.counters("elapsed_us", "task_clock_us")
        workers = self._machine.workers
        at = np.searchsorted(workers, self.now)
        load = np.bincount(at, elapsed, workers.size)
        full = int(np.argsort(-load, kind="stable")[min(level, workers.size - 1)])
        targets = np.flatnonzero(np.arange(workers.size) != full)
        estimate, change = changes_of(full, at, targets, load, work)
        best = np.argsort(estimate, kind="stable")[:_TRIED]
        return [
            [(slice_, int(workers[place])) for slice_, place in change(int(number))]
            for number in best[estimate[best] < load[full]]
        ]
