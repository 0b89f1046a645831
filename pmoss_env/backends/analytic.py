"""The analytic backend: throughput of a schedule in microseconds, from a model of the machine.

Demand profiles of the slices, cache sharing by Che's approximation, and a fixed point over memory
and link contention; computed in C++ (native/analytic).
"""

from __future__ import annotations

import numpy as np

from pmoss_env import __version__, _native
from pmoss_env.errors import BackendError, UnknownNameError
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_NAMES,
    COUNTERS,
    Float64Array,
    HardwareSnapshot,
    Instance,
    LoadRegime,
    Schedule,
)
from pmoss_env.workloads import Workload

KIB_LINES = 1024 / 64


def native_machine(machine: Machine) -> _native.MachineModel:
    """The C++ form of a machine description; DescriptionError if a parameter is missing."""
    native = _native.MachineModel()
    native.node_of_core = machine.node_of_core.tolist()
    native.llc_of_core = machine.llc_of_core.tolist()
    native.is_worker = machine.worker_mask.astype(np.uint8).tolist()
    native.socket_of_node = machine.socket_of_node.tolist()
    value = machine.parameter
    for name in (
        "clock_ghz instructions_per_cycle branch_miss_cycles mlp_dependent mlp_streaming "
        "llc_victim_share llc_ns curve_a curve_b curve_c tlb_pages page_walk_ns page_bytes"
    ).split():
        setattr(native, name, value(name))
    native.l2_lines = value("l2_kib") * KIB_LINES
    native.llc_lines = value("llc_kib") * KIB_LINES
    native.llc_at_home_cluster = bool(value("llc_at_home_cluster"))
    same_socket = machine.socket_of_node[:, None] == machine.socket_of_node[None, :]
    latency = np.where(same_socket, value("dram_same_socket_ns"), value("dram_other_socket_ns"))
    np.fill_diagonal(latency, value("dram_local_ns"))
    native.dram_ns = latency.ravel().tolist()
    native.dram_gb_per_s = [value("dram_gb_per_s")] * machine.nodes
    native.link_gb_per_s = [value("link_gb_per_s")] * machine.sockets**2
    return native


def native_workload(workload: Workload, seed: int = 0) -> _native.WorkloadSpec:
    """The C++ form of a workload description and instance seed."""
    return _native.WorkloadSpec(
        lookup=workload.lookup,
        insert=workload.insert,
        scan=workload.scan,
        update=workload.update,
        distribution=workload.distribution,
        theta=workload.theta,
        zipf_items=workload.zipf_items,
        records=workload.records,
        max_scan_length=workload.max_scan_length,
        seed=seed,
    )


class AnalyticBackend:
    """Implements IncrementalBackend (pmoss_env.backends.base); has no state but its schedule."""

    name = "analytic"

    def __init__(
        self, machine: Machine, workload: Workload, slices: int, load: LoadRegime
    ) -> None:
        self.machine = machine
        self.workload = workload
        self.slices = slices
        self.load = load
        self._model = _native.AnalyticModel(
            native_machine(machine),
            load=load.kind,
            outstanding_per_worker=load.outstanding_per_worker,
            offered_mq_per_s=load.offered_mq_per_s,
        )
        self._profiler = _native.BTreeProfiler(native_workload(workload), slices)
        self._instance: Instance | None = None
        self._node_of_core = machine.node_of_core.tolist()
        self._links = [
            (a, b) for a in range(machine.sockets) for b in range(machine.sockets) if a != b
        ]
        self._offcore_names = (
            *(f"node{n}_read_gb_per_s" for n in range(machine.nodes)),
            *(f"node{n}_write_gb_per_s" for n in range(machine.nodes)),
            *(f"link{a}to{b}_gb_per_s" for a, b in self._links),
        )
        self.set_instance(Instance())

    def set_instance(self, instance: Instance) -> None:
        """Chooses which keys are hot and which neighbours there are; forgets the schedule."""
        if instance == self._instance:
            return
        busy = np.zeros(self.machine.cores)
        for neighbour in instance.neighbours:
            if neighbour.family != "busy_core":
                raise UnknownNameError("neighbour family", neighbour.family, ("busy_core",))
            if not 0 <= neighbour.core < self.machine.cores:
                raise BackendError(
                    f"neighbour on core {neighbour.core}: {self.machine.name} has "
                    f"{self.machine.cores} cores"
                )
            busy[neighbour.core] = 1 - (1 - busy[neighbour.core]) * (1 - neighbour.share)
        self._model.set_instance(self._profiler, instance.workload_seed, busy.tolist())
        self._instance = instance

    def place(self, schedule: Schedule) -> float:
        """Makes ``schedule`` the current one; returns its throughput in Mq/s."""
        self.machine.check_schedule(schedule, self.slices)
        return float(self._model.place(schedule.cores, schedule.nodes))

    def move(self, slice_: int, core: int) -> float:
        """Moves one slice and its data; returns the throughput in Mq/s."""
        return float(self._model.move(slice_, core, self._node_of_core[core]))

    def marginal(self, slice_: int) -> Float64Array:
        """(cores,) float64: throughput in Mq/s if ``slice_`` moved to each core."""
        return np.asarray(self._model.marginal(slice_))

    def best_by_enumeration(self, limit: int = 2_000_000) -> tuple[Schedule, float]:
        """The best schedule of a small instance and its throughput in Mq/s."""
        cores, throughput, _ = self._model.best_by_enumeration(limit)
        return self.machine.local_schedule(cores), float(throughput)

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """The model's snapshot of ``schedule``; the model has no noise, so ``seed`` is recorded."""
        self.place(schedule)
        raw = self._model.snapshot()
        counters = np.zeros((self.slices, len(COUNTERS)))
        available = np.zeros(len(COUNTERS), dtype=np.bool_)
        for i, name in enumerate(COUNTER_NAMES):
            if name in raw["counters"]:
                counters[:, i] = raw["counters"][name]
                available[i] = True
        links = np.asarray(raw["link_gb_per_s"]).reshape(self.machine.sockets, -1)
        offcore = np.concatenate(
            [raw["read_gb_per_s"], raw["write_gb_per_s"], [links[a, b] for a, b in self._links]]
        )
        return HardwareSnapshot(
            throughput=float(raw["throughput"]),
            slice_throughput=counters[:, 0].copy(),
            slice_counters=counters,
            counters_available=available,
            running_ratio=available.astype(np.float64),
            offcore=offcore,
            offcore_names=self._offcore_names,
            offcore_available=np.ones(offcore.size, dtype=np.bool_),
            latency_p50_us=float(raw["latency_p50_us"]),
            latency_p99_us=float(raw["latency_p99_us"]),
            load=str(self.load),
            provenance={"backend": self.name, "version": __version__, "seed": seed},
        )

    def close(self) -> None:
        """Nothing to release."""
