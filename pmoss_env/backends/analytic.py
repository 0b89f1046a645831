"""The analytic backend: the throughput of a schedule in microseconds, from a model of the machine.

C++ code (native/analytic) computes demand profiles of the slices, cache sharing by Che's
approximation, and a fixed point over the contention of memories and links.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pmoss_env import __version__, _native
from pmoss_env.backends.base import Subject, SubjectBackend, check_dispatch
from pmoss_env.backends.deviation import check_deviation, machine_rng, true_machine
from pmoss_env.backends.native_counts import model_snapshot
from pmoss_env.backends.native_forms import (
    native_interference,
    native_machine,
    native_workload,
)
from pmoss_env.backends.profilers import make_profiler
from pmoss_env.checks import check_type
from pmoss_env.interference import check_co_tenants
from pmoss_env.plugin_recordings import RecordedProfiler, recording_for
from pmoss_env.types import (
    CO_TENANT_FAMILIES,
    CoTenant,
    Float64Array,
    HardwareSnapshot,
    Instance,
    Schedule,
)


class AnalyticBackend(SubjectBackend):
    """Implements IncrementalBackend (pmoss_env.backends.base); its schedule is its only state.

    The profile of a B+-tree comes from formulas. An R-tree is built and run once per process,
    workload and number of slices, for all instances. That takes tens of seconds for 50 million
    records. Creating a backend is cheap: profiles are computed at their first use.

    Args:
        records: number of records in the index; None: the workload's.
        overhead_cycles: cycles of a worker per query, in addition to the index's own code.
        numa_balancing: whether the operating system has moved the pages that it placed.
        deviation: relative deviation of latencies, bandwidths and core speeds from the description;
            see ``true_machine``. The seed of the workload instance draws them.
        progress: called about twice a second with (stage, seconds so far) while an R-tree is
            profiled for longer than two seconds.
        recording: folder of a user-defined library's recording (``pmoss index record``). None:
            beside the library.

    Raises:
        DescriptionError: an option of another type, a machine without parameters, or an invalid
            workload.
        UnsupportedError: a library without a recording.
        RecordingError: a recording of something else.
    """

    name = "analytic"
    method = "By the analytic model"
    repeatable = True
    measures_host = False
    step_cost = 1e-5
    incremental = True
    co_tenant_families: tuple[str, ...] = tuple(CO_TENANT_FAMILIES)

    def __init__(
        self,
        subject: Subject,
        *,
        records: int | None = None,
        dispatch: str = "ideal",
        overhead_cycles: float = 0.0,
        numa_balancing: bool = False,
        deviation: float = 0.0,
        progress: Callable[[str, float], None] | None = None,
        recording: str | None = None,
    ) -> None:
        check_type("overhead_cycles", float, overhead_cycles)
        check_type("numa_balancing", bool, numa_balancing)
        recorded, records = recording_for(subject.workload, subject.slices, records, recording)
        super().__init__(subject, records)
        machine, load = self.machine, self.load
        check_dispatch(dispatch, load)
        self._deviation, self._overhead_cycles = check_deviation(deviation), overhead_cycles
        self._true_machine = native_machine(machine, overhead_cycles)
        self._model = _native.AnalyticModel(
            self._true_machine,
            load=load.kind,
            outstanding_per_worker=load.outstanding_per_worker,
            offered_mq_per_s=load.offered_mq_per_s,
            dispatched=dispatch == "modelled",
            numa_balancing=numa_balancing,
        )
        native_workload(self.workload)  # raises an error for an invalid workload
        self._progress = progress
        self._profiler: _native.Profiler | RecordedProfiler | None = (
            None if recorded is None else RecordedProfiler(recorded)
        )
        self._instance: Instance | None = None
        # The slower cores of the instance's true machine, as co-tenants.
        self._slow_cores: tuple[CoTenant, ...] = ()
        self._node_of_core = machine.node_of_core.tolist()

    def set_instance(self, instance: Instance) -> None:
        """Sets hot keys and co-tenants; forgets the schedule.

        Raises:
            DescriptionError: co-tenants that the machine cannot have.
            BackendError: the R-tree cannot be profiled.
        """
        profiler, seed, taken = self.opening(instance)
        if profiler is not None and taken is not None:
            self._model.set_instance(profiler.profiles(seed), taken)
        elif taken is not None:
            self._model.set_co_tenants(taken)
        self._instance = instance

    def opening(
        self, instance: Instance
    ) -> tuple[_native.Profiler | None, int, _native.Interference | None]:
        """What the native model lacks of an instance, for ``EpisodeBatch.open``; then opened().

        Returns:
            The profiler, the seed of its profiles, and what co-tenants take; None: as it is.

        Raises:
            DescriptionError: co-tenants that the machine cannot have.
            BackendError: the R-tree cannot be profiled.
        """
        seed = instance.workload_seed
        if instance == self._instance:
            return None, seed, None
        check_co_tenants(instance.co_tenants, self.machine, self.co_tenant_families, self.name)
        if self._profiler is None:
            self._profiler = make_profiler(self.workload, self.slices, self._progress)
        again = self._instance is not None and self._instance.workload_seed == seed
        self._instance = None
        if self._deviation and not again:
            self._true_machine, self._slow_cores = true_machine(
                self.machine, self._deviation, machine_rng(seed), self._overhead_cycles
            )
            self._model.set_machine(self._true_machine)
        taken = native_interference((*self._slow_cores, *instance.co_tenants), self._true_machine)
        return None if again else self._profiler_of(seed), seed, taken

    def next_opening(
        self, instance: Instance
    ) -> tuple[_native.Profiler, int, _native.Interference]:
        """What another native model of the same machine needs of an instance, as in opening().

        The model at hand goes on. An opening() comes before; the machine does not deviate.
        """
        check_co_tenants(instance.co_tenants, self.machine, self.co_tenant_families, self.name)
        taken = native_interference(instance.co_tenants, self._true_machine)
        seed = instance.workload_seed
        return self._profiler_of(seed), seed, taken

    def _profiler_of(self, seed: int) -> _native.Profiler:
        profiler = self._profiler
        assert profiler is not None
        return profiler.profiler(seed) if isinstance(profiler, RecordedProfiler) else profiler

    def opened(self, instance: Instance, raw: _native.ModelSnapshot, seed: int) -> HardwareSnapshot:
        """The snapshot of a schedule that a batch has measured; keeps the batch's instance."""
        self._instance = instance
        return self._snapshot(raw, seed)

    @property
    def model(self) -> _native.AnalyticModel:
        """The C++ model, for native batches."""
        return self._model

    def place(self, schedule: Schedule) -> float:
        """Makes ``schedule`` the current one; returns its throughput in Mq/s.

        Raises:
            ScheduleError: the machine cannot run the schedule.
            BackendError: the R-tree cannot be profiled.
        """
        self.machine.check_schedule(schedule, self.slices)
        if self._instance is None:
            self.set_instance(Instance())
        return float(
            self._model.place(schedule.cores, schedule.nodes, schedule.routing, schedule.data)
        )

    def move(self, slice_: int, core: int) -> float:
        """Moves one slice and its data; returns the throughput in Mq/s."""
        return float(self._model.move(slice_, core, self._node_of_core[core]))

    def marginal(self, slice_: int) -> Float64Array:
        """(cores,) float64: throughput in Mq/s if ``slice_`` moved to each core."""
        return np.asarray(self._model.marginal(slice_))

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """The model's snapshot of ``schedule``. It has no noise; ``seed`` is only recorded."""
        self.place(schedule)
        return self._snapshot(self._model.snapshot(), seed)

    def _snapshot(self, raw: _native.ModelSnapshot, seed: int) -> HardwareSnapshot:
        provenance = {"backend": self.name, "version": __version__, "seed": seed}
        return model_snapshot(raw, self.machine, self.load, provenance)

    def serve(self, schedule: Schedule) -> tuple[float, Float64Array]:
        """The throughput of ``measure`` and its (slices,) shares in Mq/s, without counters."""
        return self.place(schedule), self._model.slice_throughput()

    def close(self) -> None:
        """Nothing to release."""
