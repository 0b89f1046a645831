"""The simulated backend: the index code's own memory accesses on a model of the machine.

The index code that runs on hardware is run once per workload instance and its accesses are recorded
(native/recording). A schedule is measured by replaying the recording (native/simulator). The model
has the machine's caches, coherence, address translation, memories and links.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pmoss_env import __version__, _native
from pmoss_env.backends.base import Subject, SubjectBackend, check_dispatch
from pmoss_env.backends.model_snapshot import model_snapshot
from pmoss_env.backends.native_forms import native_interference, native_machine
from pmoss_env.backends.recordings import OF_POINTS, RecordingOptions, Recordings
from pmoss_env.backends.reporting import reported
from pmoss_env.errors import BackendError, DescriptionError
from pmoss_env.indexes import holds_points
from pmoss_env.interference import check_co_tenants
from pmoss_env.machines import Machine
from pmoss_env.plugin_recordings import recording_for
from pmoss_env.types import CO_TENANT_FAMILIES, HardwareSnapshot, Instance, Schedule
from pmoss_env.workloads import Workload

T = TypeVar("T")


#: New cache lines that a query of each kind brings, roughly. A lookup brings its leaf, an insert
#: also the lines that it moves. A scan brings several leaves, some of which other queries have
#: read.
_NEW_LINES = {"lookup": 2.5, "update": 2.5, "insert": 17.5, "scan": 10.0}


def enough_queries(machine: Machine, workload: Workload) -> int:
    """Queries whose first half can fill all caches of ``machine`` twice; whole millions, 2 or more.

    Measured on caches that are still filling, large last levels look slower than they are: lookups
    on milan-nps4 by a third.

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
        subject: what is simulated.
        records: records in the index, instead of the workload's.
        queries: queries recorded per instance and executed by each measurement; the first half
            warms the caches. None: enough for that, by the machine and the workload.
        line_sampling: 1 cache line in this many is simulated, in caches that are as much smaller.
        page_sampling: likewise for pages.
        dispatch: "ideal" (a query is at its worker at once) or "modelled" (routers hand out the
            queries, ``dispatch_ns`` of the machine for each).
        overhead_cycles: what a worker takes per query beyond the index's own code, cycles.
        numa_balancing: whether the operating system has moved pages that it placed itself.
        recordings: where recordings are kept; backends of one process may share them. None: in the
            backend; those of R-trees, which take long, are shared by the whole process.
        progress: called about twice a second with (what is done, seconds so far) while work takes
            longer than two seconds.
        recording: of a user's library (``pmoss record``): its folder. None: beside the library. All
            its queries, lines and pages are simulated.

    Raises:
        DescriptionError: an impossible option, or a machine without parameters.
        UnknownNameError: another dispatch.
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
        if not isinstance(numa_balancing, bool):
            raise DescriptionError(f"numa_balancing = {numa_balancing!r}: must be true or false")
        self._of_library, records = recording_for(
            subject.workload, subject.slices, records, recording
        )
        super().__init__(subject, records)
        if self._of_library is not None:
            if queries not in (None, self._of_library.queries):
                raise DescriptionError(
                    f"queries = {queries}: the recording has {self._of_library.queries}"
                )
            queries, line_sampling, page_sampling = self._of_library.queries, 1, 1
        elif queries is None:
            queries = enough_queries(self.machine, self.workload)
        self.recorded = RecordingOptions(
            self.workload, self.slices, queries, line_sampling, page_sampling
        )
        self.dispatch = dispatch
        self.numa_balancing = numa_balancing
        self._progress = progress
        self._native_machine = native_machine(self.machine, overhead_cycles)
        self._server: _native.SimulatedServer | None = None
        if recordings is None and holds_points(self.workload.index):
            recordings = OF_POINTS
        self._shared = recordings is not None
        self._recordings = recordings or Recordings()
        self._instance = Instance()

    def set_instance(self, instance: Instance) -> None:
        """Chooses which keys are hot and which co-tenants there are."""
        check_co_tenants(instance.co_tenants, self.machine, self.co_tenant_families, self.name)
        if instance != self._instance:
            self._instance = instance
            self._server = None

    def trace(self) -> _native.Trace:
        """What the index touches under the present workload instance; recorded if need be.

        Raises:
            BackendError: it would not fit into memory, for instance; nothing was allocated.
            RecordingError: the recording of a library is damaged.
        """
        if self._of_library is not None:
            return self._of_library.trace(self._instance.workload_seed)
        what = f"recording {self.recorded.queries:,} queries on {self.workload.records:,} records"
        return self._recordings.get(
            self.recorded, self._instance.workload_seed, lambda work: self._reported(what, work)
        )

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """Executes the instance's queries under ``schedule``.

        Raises:
            ScheduleError: the machine cannot run the schedule.
            BackendError: the instance cannot be recorded, or not be simulated on this machine.
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
            machine: other than this backend's own.
            **options: further arguments of the native server.

        Raises:
            ValueError: the simulator cannot have such a machine.
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
                # Only now, for it takes long.
                server.set_instance(self.trace(), taken)
            except (ValueError, MemoryError) as error:
                raise BackendError(f"cannot simulate {self.machine.name}: {error}") from error
            self._server = server
        return self._server

    def _reported(self, what: str, work: Callable[[], T]) -> T:
        return reported(what, work, self._progress)
