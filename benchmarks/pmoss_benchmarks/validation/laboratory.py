"""Where statements are put to the test: throughputs by fidelity, machine, workload and schedule."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pmoss_benchmarks.spatial.combinations import simulation
from pmoss_env.backends import IncrementalBackend, make_backend
from pmoss_env.backends.base import Backend
from pmoss_env.baselines import grouped_context, local_search, make_baseline
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import HardwareSnapshot, Instance, Schedule
from pmoss_env.workloads import Workload, load_workload

#: What stands in the place of P-MOSS's learned policy.
SEARCH = "search"


@dataclass
class Laboratory:
    """Measures what the statements are about, each combination once.

    The paper's workers have unbounded queues, so the usual load is saturated.

    No learned policy is measured. The schedule "search" stands in its place: what local search
    finds with ``budget`` evaluations of the analytic model under closed load. (Under saturated
    load a search would only collect queries that are cheap to serve: cores need not keep the mix
    of the workload then.)

    The original's software takes longer than ours for a query, on every machine alike:
    ``overhead_cycles`` more. On one host, one thread and 30 million keys its tree does 2.0 million
    lookups per second and ours 7.6. That is 370 ns or some 1,100 cycles more. A part of that is
    its greater number of cache misses, so the value is an estimate below that.

    Attributes:
        simulated: options of the simulated backend.
        slices: of the index, 256 in the paper.
        budget: of the search.
        seed: of the workload instance and of Random.
        random_draws: schedules that "random" is the mean of.
        overhead_cycles: per query beyond our index's own code.
        load: that throughputs are of, where a question names none.
        switches: further options of both backends under that load, such as ``numa_balancing``.
        search_load: that the search looks at.
        parameters: of the machines, changed where a machine has them: the factor by which one is
            multiplied, or the name of the one whose value it takes.
        machines: that stand in the place of others, by the name that a question has.
        first_touch: whether all slices stay where they were loaded, on node 0.
        ordered_keys: whether Zipf's hottest keys lie side by side, as YCSB draws them before it
            scatters them. P-MOSS (section 7.2) says "Zipfian" alone.
        queue_lines: cache lines of a router's queue that a query touches, where queues count. Each
            worker's queue lies on its node. But under OS:I the kernel spreads what threads allocate
            as well (``numactl --interleave=all``): such a line is then as far as memory is in the
            mean.
    """

    simulated: dict[str, Any] = field(default_factory=dict)
    slices: int = 256
    budget: int = 2000
    seed: int = 1
    random_draws: int = 3
    overhead_cycles: float = 500.0
    load: str = "saturated"
    switches: dict[str, Any] = field(default_factory=dict)
    search_load: str = "closed"
    parameters: Mapping[str, float | str] = field(default_factory=dict)
    machines: Mapping[str, str] = field(default_factory=dict)
    first_touch: bool = False
    ordered_keys: bool = False
    queue_lines: float = 0.0
    _backends: dict[tuple[str, ...], Backend] = field(default_factory=dict, init=False)
    _snapshots: dict[tuple[Any, ...], HardwareSnapshot] = field(default_factory=dict, init=False)
    _schedules: dict[tuple[str, ...], Schedule] = field(default_factory=dict, init=False)

    def machine(self, name: str) -> Machine:
        """The machine description of a name, or what stands in its place; parameters changed."""
        machine = load_machine(self.machines.get(name, name))
        usual = machine.parameters
        changed = dict(usual)
        for parameter, change in self.parameters.items():
            if parameter in usual and isinstance(change, float):
                scaled = _scaled(usual[parameter].value, change)
                changed[parameter] = replace(usual[parameter], value=scaled)
            elif parameter in usual and change in usual:
                changed[parameter] = replace(usual[parameter], value=usual[str(change)].value)
        return replace(machine, parameters=changed) if self.parameters else machine

    def workload(self, name: str) -> Workload:
        """The workload of a name, with its hot keys side by side where that was asked for."""
        workload = load_workload(name)
        if not self.ordered_keys or workload.distribution != "zipf":
            return workload
        return replace(workload, distribution="zipf_ordered", zipf_items=workload.records)

    def throughput(
        self, fidelity: str, machine: str, workload: str, schedule: str, load: str = "saturated"
    ) -> float:
        """Mq/s; of "random" the mean over several draws."""
        if schedule == "random":
            names = [f"random-{draw}" for draw in range(self.random_draws)]
            return float(
                np.mean([self.throughput(fidelity, machine, workload, n, load) for n in names])
            )
        return self.snapshot(fidelity, machine, workload, schedule, load).throughput

    def throughputs(
        self, fidelity: str, machine: str, workload: str, schedules: tuple[str, ...]
    ) -> list[float]:
        """The throughputs of several schedules under the laboratory's load, Mq/s."""
        return [self.throughput(fidelity, machine, workload, name, self.load) for name in schedules]

    def snapshot(
        self, fidelity: str, machine: str, workload: str, schedule: str, load: str = "saturated"
    ) -> HardwareSnapshot:
        """What a fidelity measures under a schedule by name."""
        key = (fidelity, machine, workload, schedule, load)
        if key not in self._snapshots:
            placed = self.schedule(machine, workload, schedule, load)
            backend = self.backend(fidelity, machine, workload, load, schedule)
            self._snapshots[key] = backend.measure(placed, seed=self.seed)
        return self._snapshots[key]

    def dispatched(self, fidelity: str, machine: str, workload: str, schedule: str) -> float:
        """Mq/s where every query passes the original's routers, which never rest."""
        placed = self.schedule(machine, workload, schedule, "saturated")
        options = {"dispatch": "modelled", "overhead_cycles": self.overhead_cycles}
        place = (fidelity, machine, load_workload(workload), "saturated")
        with closing(self._new_backend(*place, options)) as backend:
            return backend.measure(placed, seed=self.seed).throughput

    def schedule(self, machine: str, workload: str, name: str, load: str) -> Schedule:
        """A schedule by name; "random-<n>" is the n-th draw, "search" the searched one."""
        key = (machine, workload, name, load)
        if key not in self._schedules:
            model = self.backend(
                "analytic", machine, workload, self.search_load if name == SEARCH else load
            )
            assert isinstance(model, IncrementalBackend)
            number = int(name.rpartition("-")[2]) if name.startswith("random-") else 0
            rng = np.random.default_rng([self.seed, number])
            context = grouped_context(model, rng, seed=self.seed)
            if name == SEARCH:
                self._schedules[key] = local_search(context, self.budget).schedule
            else:
                baseline = "random" if name.startswith("random-") else name
                self._schedules[key] = make_baseline(baseline, shared=True)(context)
            if self.first_touch and self._schedules[key].data == "slice":
                self._schedules[key] = replace(self._schedules[key], data="first_touch")
        return self._schedules[key]

    def backend(
        self, fidelity: str, machine: str, workload: str, load: str, schedule: str = ""
    ) -> Backend:
        """The backend of a combination, set to the instance of the seed.

        Args:
            fidelity: "analytic" or "simulated".
            schedule: that it measures; "os-interleave" spreads queues, too.
        """
        spread = schedule == "os-interleave" and self.queue_lines > 0
        key = (fidelity, machine, workload, load, "queues" if spread else "")
        if key not in self._backends:
            further = self._queue_cycles(machine) if spread else 0.0
            options: dict[str, Any] = {"overhead_cycles": self.overhead_cycles + further}
            # A search looks at closed load in any case: not all switches are for that.
            options |= self.switches if load == self.load else {}
            place = (fidelity, machine, self.workload(workload), load)
            self._backends[key] = self._new_backend(*place, options)
        return self._backends[key]

    def _new_backend(
        self, fidelity: str, machine: str, workload: Workload, load: str, options: Mapping[str, Any]
    ) -> Backend:
        """A backend with further options, set to the instance of the seed."""
        backend = make_backend(
            fidelity,
            machine=self.machine(machine),
            workload=workload,
            index=workload.index,
            slices=self.slices,
            load=load,
            **(simulation(self.simulated) if fidelity == "simulated" else {}),
            **options,
        )
        backend.set_instance(Instance(self.seed))
        return backend

    def _queue_cycles(self, name: str) -> float:
        """Cycles by which a query's lines of a queue are farther than the worker's own memory."""
        machine = self.machine(name)
        far = machine.distances.dram_ns[machine.node_of_core[machine.workers]].mean()
        near = np.diag(machine.distances.dram_ns).mean()
        clock = machine.parameters["clock_ghz"].value
        assert isinstance(clock, float)
        return self.queue_lines * float(far - near) * clock

    def close(self) -> None:
        """Releases all backends."""
        for backend in self._backends.values():
            backend.close()
        self._backends.clear()


def _scaled(value: Any, factor: float) -> Any:
    """A parameter's number, list or matrix, multiplied."""
    if isinstance(value, list | tuple):
        return type(value)(_scaled(part, factor) for part in value)
    return value * factor
