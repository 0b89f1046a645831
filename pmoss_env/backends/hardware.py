"""The hardware backend: the native runtime measures schedules on this host.

Pinned worker threads serve a B+-tree under the given schedule, fed by routers through bounded
queues (native/runtime). What this host cannot count is marked unavailable; nothing is made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pmoss_env import __version__, _native
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.errors import BackendError, UnsupportedError
from pmoss_env.interference import check_neighbours
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_INDEX,
    COUNTERS,
    HardwareSnapshot,
    Instance,
    LoadRegime,
    Schedule,
)
from pmoss_env.workloads import Workload, resized

#: Events that the kernel counts in nanoseconds, and their name and scale in the vocabulary.
_IN_MICROSECONDS = {"task_clock": ("task_clock_us", 1e-3)}


class HardwareBackend:
    """Implements Backend (pmoss_env.backends.base) on the machine this process runs on.

    The index is loaded at the first measurement, again when the instance changes, because other
    keys are hot then, and again when inserts have made it larger than ``max_growth`` allows:
    schedules are only compared on indexes of about the same size.

    Args:
        machine: this host, ``load_machine("host")``.
        workload: what the index gets.
        slices: number of key ranges.
        load: how queries are offered.
        records: records in the index, instead of the workload's.
        seconds: length of one measurement.
        warmup_seconds: time before it that does not count.
        window: queries per counter window (mission row A10).
        huge_pages: ask for 2 MiB pages.
        max_growth: largest share of inserted records, of those loaded, at which a measurement
            still begins.
        progress: called with the number of records loaded so far.
    """

    name = "hardware"
    neighbour_families: tuple[str, ...] = ("busy_core",)

    def __init__(
        self,
        machine: Machine,
        workload: Workload,
        slices: int,
        load: LoadRegime,
        *,
        records: int | None = None,
        seconds: float = 1.0,
        warmup_seconds: float = 0.2,
        window: int = 100,
        huge_pages: bool = True,
        max_growth: float = 0.1,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        if machine.name != "host":
            raise UnsupportedError(
                f"machine {machine.name!r} is not this host: the hardware backend measures "
                "machine 'host'"
            )
        if not seconds > 0 or not warmup_seconds >= 0:
            raise BackendError(f"seconds = {seconds}, warmup_seconds = {warmup_seconds}: too short")
        self.machine = machine
        self.workload = resized(workload, records)
        self.slices = slices
        self.load = load
        self.seconds = seconds
        self.warmup_seconds = warmup_seconds
        self.window = window
        self.huge_pages = huge_pages
        self.max_growth = max_growth
        self._progress = progress
        self._facts = _native.host_facts("/")
        self._instance = Instance()
        self._runner: _native.Runner | None = None

    def set_instance(self, instance: Instance) -> None:
        """Chooses which keys are hot (the index is loaded anew) and which neighbours spin."""
        check_neighbours(instance.neighbours, self.machine, self.neighbour_families, self.name)
        if instance.workload_seed != self._instance.workload_seed:
            self._runner = None
        self._instance = instance

    def _loaded_runner(self) -> _native.Runner:
        records = self.workload.records
        if self._runner and self._runner.next_insert_record > records * (1 + self.max_growth):
            self._runner = None  # frees the old index before the new one is loaded
        if self._runner is None:
            runner = _native.Runner(
                native_workload(self.workload, self._instance.workload_seed),
                slices=self.slices,
                huge_pages=self.huge_pages,
            )
            runner.load(progress=self._progress)
            self._runner = runner
        return self._runner

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """Runs ``schedule`` for ``seconds`` and returns what was counted.

        Raises:
            ScheduleError: this host cannot run the schedule.
            UnsupportedError: a schedule whose workers share slices.
            BackendError: a thread failed; the message names its role and CPU.
        """
        self.machine.check_schedule(schedule, self.slices)
        if (schedule.routing, schedule.data) != ("core", "slice"):
            raise UnsupportedError(
                f"routing {schedule.routing!r} with data {schedule.data!r}: the hardware backend "
                "runs each slice on its own core only; models run the other schedules"
            )
        cpu = self.machine.cpu_of_core
        routers = [
            int(cpu[core])
            for core, role in enumerate(self.machine.role_of_core)
            if role == "router"
        ]
        runner = self._loaded_runner()
        before = runner.index.size
        try:
            raw = runner.measure(
                cores=cpu[schedule.cores],
                worker_cpus=cpu[self.machine.workers].tolist(),
                router_cpus=routers,
                busy_cpus=[int(cpu[n.target]) for n in self._instance.neighbours],
                load=self.load.kind,
                outstanding_per_worker=self.load.outstanding_per_worker,
                rate_mqs=self.load.offered_mq_per_s,
                seconds=self.seconds,
                warmup_seconds=self.warmup_seconds,
                seed=seed,
                window=self.window,
            )
        except (RuntimeError, MemoryError) as error:
            raise BackendError(f"the measurement failed: {error}") from error
        return self._snapshot(raw, seed, (before, runner.index.size))

    def _snapshot(
        self, raw: dict[str, Any], seed: int, records: tuple[int, int]
    ) -> HardwareSnapshot:
        seconds = raw["seconds"]
        queries = np.asarray(raw["slice_queries"], dtype=np.float64) / seconds / 1e6
        counters = np.zeros((self.slices, len(COUNTERS)))
        available = np.zeros(len(COUNTERS), dtype=np.bool_)
        ratio = np.zeros(len(COUNTERS))

        def fill(name: str, rates: np.ndarray, running: float) -> None:
            i = COUNTER_INDEX[name]
            counters[:, i] = rates
            available[i] = True
            ratio[i] = running

        fill("queries", queries, 1.0)
        fill("elapsed_us", np.asarray(raw["slice_service_seconds"]) / seconds, 1.0)
        sources: dict[str, str] = {}
        for i, event in enumerate(raw["availability"]):
            name, scale = _IN_MICROSECONDS.get(event["name"], (event["name"], 1.0))
            sources[name] = event["source"] if event["source"] != "none" else event["reason"]
            if event["source"] == "none":
                continue
            counted = np.asarray(raw["slice_counted"])[:, i]
            totals = np.asarray(raw["slice_counters"])[:, i]
            per_query = np.divide(totals, counted, out=np.zeros(self.slices), where=counted > 0)
            fill(name, per_query * scale * queries, float(raw["running_ratio"][i]))
        return HardwareSnapshot(
            throughput=float(raw["completed"]) / seconds / 1e6,
            slice_throughput=queries,
            slice_counters=counters,
            counters_available=available,
            running_ratio=ratio,
            offcore=np.zeros(0),
            offcore_names=(),
            offcore_available=np.zeros(0, dtype=np.bool_),
            latency_p50_us=float(raw["latency_p50_us"]),
            latency_p99_us=float(raw["latency_p99_us"]),
            load=str(self.load),
            provenance={
                "backend": self.name,
                "version": __version__,
                "seed": seed,
                "host": self._facts,
                "records_before": records[0],
                "records_after": records[1],
                "seconds": seconds,
                "window": self.window,
                "worker_cpus": [int(cpu) for cpu in raw["worker_cpus"]],
                "router_cpus": [int(cpu) for cpu in raw["router_cpus"]],
                "busy_cpus": [int(cpu) for cpu in raw["busy_cpus"]],
                "busy_share": "as the kernel divides the core between two runnable threads",
                "roles_share_cores": bool(raw["roles_share_cores"]),
                "data_placement": "first touch: moving data between nodes is not done yet"
                if self.machine.nodes > 1
                else "one node",
                "counters": sources,
            },
        )

    def close(self) -> None:
        """Frees the index."""
        self._runner = None
