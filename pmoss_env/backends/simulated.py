"""The simulated backend: the memory accesses of the index code on a model of the machine.

The index code that runs on hardware is run once per workload instance, and its accesses are
recorded (native/recording). A measurement replays the recording under a schedule
(native/simulator). The model has caches, coherence, address translation, memories and links.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from pmoss_env import __version__, _native
from pmoss_env.backends.base import Subject, SubjectBackend, check_dispatch
from pmoss_env.backends.native_counts import model_snapshot
from pmoss_env.backends.native_forms import native_interference, native_machine
from pmoss_env.backends.recordings import KEPT, POINT_RECORDINGS, RecordingOptions, Recordings
from pmoss_env.backends.reporting import with_progress
from pmoss_env.checks import check_type
from pmoss_env.errors import BackendError, DescriptionError
from pmoss_env.indexes import holds_points
from pmoss_env.interference import check_co_tenants
from pmoss_env.machines import Machine
from pmoss_env.plugin_recordings import recording_for
from pmoss_env.types import CO_TENANT_FAMILIES, HardwareSnapshot, Instance, Schedule
from pmoss_env.workloads import Workload

T = TypeVar("T")


#: Approximate number of new cache lines per query. A lookup reads a leaf, an insert also moves
#: lines, and a scan reads several leaves, some of which are cached.
_NEW_LINES = {"lookup": 2.5, "update": 2.5, "insert": 17.5, "scan": 10.0}


def enough_queries(machine: Machine, workload: Workload) -> int:
    """Number of queries whose first half fills all caches twice; whole millions, at least 2.

    On half-filled caches large last levels look slow: lookups on milan-nps4 by a third.

    Raises:
        DescriptionError: the machine has no parameters.
    """
    bytes_per_line, fills, warming = 64, 2, 0.5
    new_lines: float = sum(lines * getattr(workload, kind) for kind, lines in _NEW_LINES.items())
    private = np.unique(machine.physical_of_core[machine.workers]).size
    domains = np.unique(machine.llc_of_core[machine.workers]).size
    kib = private * machine.parameter("l2_kib") + domains * machine.parameter("llc_kib")
    queries = fills * kib * 1024 / bytes_per_line / new_lines / warming
    return max(2, math.ceil(queries / 1e6)) * 1_000_000


class SimulatedBackend(SubjectBackend):
    """Implements Backend (pmoss_env.backends.base) for machines that have parameters.

    The accesses are recorded at the first measurement of an instance. The same arguments and seed
    give the same bits.

    Args:
        records: number of records in the index; None: the workload's.
        queries: number of queries that are recorded per instance and executed per measurement; the
            first half warms the caches. None: enough for the machine and the workload. With far
            fewer, queues still fill while it measures, and an overloaded core costs too little.
        line_sampling: one cache line in this many is simulated, in proportionally smaller caches.
        dispatch: "ideal" (queries reach their workers at once) or "modelled" (routers dispatch
            them and take the machine's ``dispatch_ns`` for each).
        overhead_cycles: cycles of a worker per query, in addition to the index's own code.
        numa_balancing: whether the operating system has moved the pages that it placed.
        recordings: store of recordings, which backends of a process may share. None: one of its
            own; backends of R-trees share one.
        progress: called about twice a second with (stage, seconds so far) during work of more than
            two seconds.
        recording: folder of a user-defined library's recording (``pmoss index record``). None:
            beside the library. All its queries, lines and pages are simulated.

    Raises:
        DescriptionError: an invalid option, or a machine without parameters.
        UnsupportedError: a library without a recording.
        RecordingError: a recording of something else.
    """

    name = "simulated"
    method = "By execution-driven simulation of the server"
    repeatable = True
    measures_host = False
    step_cost = 1.0
    incremental = False
    co_tenant_families: tuple[str, ...] = tuple(CO_TENANT_FAMILIES)

    def __init__(
        self,
        subject: Subject,
        *,
        records: int | None = None,
        queries: int | None = None,
        line_sampling: int = 64,
        page_sampling: int = 8,
        dispatch: str = "ideal",
        overhead_cycles: float = 0.0,
        numa_balancing: bool = False,
        recordings: Recordings | None = None,
        progress: Callable[[str, float], None] | None = None,
        recording: str | None = None,
    ) -> None:
        check_dispatch(dispatch, subject.load)
        check_type("numa_balancing", bool, numa_balancing)
        self._library_recording, records = recording_for(
            subject.workload, subject.slices, records, recording
        )
        super().__init__(subject, records)
        if self._library_recording is not None:
            recorded_queries = self._library_recording.queries
            if queries not in (None, recorded_queries):
                raise DescriptionError(f"queries = {queries}: the recording has {recorded_queries}")
            queries, line_sampling, page_sampling = recorded_queries, 1, 1
        elif queries is None:
            queries = enough_queries(self.machine, self.workload)
        self.recorded = RecordingOptions(
            self.workload, self.slices, queries, line_sampling, page_sampling
        )
        self.dispatch = dispatch
        self.numa_balancing = numa_balancing
        self._progress = progress
        check_type("overhead_cycles", float, overhead_cycles)
        self._native_machine = native_machine(self.machine, overhead_cycles)
        self._server: _native.SimulatedServer | None = None
        if recordings is None and holds_points(self.workload.index):
            recordings = POINT_RECORDINGS
        self._shared = recordings is not None
        self._recordings = recordings or Recordings(KEPT)
        self._instance = Instance()

    def set_instance(self, instance: Instance) -> None:
        """Sets hot keys and co-tenants."""
        check_co_tenants(instance.co_tenants, self.machine, self.co_tenant_families, self.name)
        if instance != self._instance:
            self._instance = instance
            self._server = None

    def trace(self) -> _native.Trace:
        """The memory accesses of the workload instance; recorded if necessary.

        Raises:
            BackendError: it failed, for example for lack of memory; nothing was allocated.
            RecordingError: the recording of a library is damaged.
        """
        if self._library_recording is not None:
            return self._library_recording.trace(self._instance.workload_seed)
        what = f"recording {self.recorded.queries:,} queries on {self.workload.records:,} records"
        seed = self.recorded.recorded_seed(self._instance.workload_seed)
        record = partial(self.recorded.record, seed)
        return self._recordings.get((self.recorded, seed), lambda: self._reported(what, record))

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """Simulates the instance's queries under ``schedule``.

        Raises:
            ScheduleError: the machine cannot run the schedule.
            BackendError: the instance cannot be recorded, or not simulated on this machine.
        """
        self.machine.check_schedule(schedule, self.slices)
        server = self._loaded_server()
        raw = self._reported(
            f"simulating {self.recorded.queries:,} queries",
            lambda: server.run(
                schedule.cores, schedule.nodes, schedule.routing, schedule.data, seed
            ),
        )
        return model_snapshot(
            raw,
            self.machine,
            self.load,
            {
                "backend": self.name,
                "version": __version__,
                "seed": seed,
                "records": self.workload.records,
                "queries": self.recorded.queries,
                "line_sampling": self.recorded.line_sampling,
                "page_sampling": self.recorded.page_sampling,
                "dispatch": self.dispatch,
                "overhead_cycles": self._native_machine.query_overhead_cycles,
                "numa_balancing": self.numa_balancing,
            },
        )

    def close(self) -> None:
        """Frees the recordings."""
        self._server = None
        if not self._shared:
            self._recordings.clear()

    def new_server(
        self, machine: _native.MachineModel | None = None, **options: Any
    ) -> _native.SimulatedServer:
        """A server without a workload instance, under this backend's load.

        Args:
            machine: None: this backend's own.

        Raises:
            ValueError: the simulator does not support the machine.
        """
        return _native.SimulatedServer(
            self._native_machine if machine is None else machine,
            load=self.load.kind,
            outstanding_per_worker=self.load.outstanding_per_worker,
            offered_mq_per_s=self.load.offered_mq_per_s,
            dispatch=self.dispatch,
            numa_balancing=self.numa_balancing,
            **options,
        )

    def _loaded_server(self) -> _native.SimulatedServer:
        if self._server is None:
            taken = native_interference(self._instance.co_tenants, self._native_machine)
            try:
                server = self.new_server()
                # Last, because it takes long.
                server.set_instance(self.trace(), taken)
            except (ValueError, MemoryError) as error:
                raise BackendError(f"cannot simulate {self.machine.name}: {error}") from error
            self._server = server
        return self._server

    def _reported(self, what: str, work: Callable[[], T]) -> T:
        return with_progress(what, work, self._progress)
