"""The protocol of a backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from pmoss_env.checks import check_name
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, HardwareSnapshot, Instance, LoadRegime, Schedule
from pmoss_env.workloads import Workload, resized

#: Modelled dispatch: queries reach their workers at once, or through routers that take the
#: machine's ``dispatch_ns`` for each.
DISPATCH = ("ideal", "modelled")


@dataclass(frozen=True)
class Subject:
    """The system that a backend measures.

    Attributes:
        machine: the server.
        workload: the queries; it names the index.
        slices: number of key ranges, or of cells of the grid over an R-tree's points.
        load: how queries are offered.
    """

    machine: Machine
    workload: Workload
    slices: int
    load: LoadRegime


@runtime_checkable
class Backend(Protocol):
    """Measures schedules of one (machine, index, workload, slices, load).

    Attributes:
        name: value of the environment's ``backend`` argument, e.g. "analytic".
        method: how it measures, as the beginning of a sentence.
        repeatable: whether the same instance, schedule and seed always give the same bits.
        measures_host: whether it measures the machine that this process runs on.
        step_cost: approximate time to measure one more schedule, seconds.
        incremental: whether it implements IncrementalBackend.
        machine: the measured server.
        workload: the queries.
        slices: number of key ranges or cells.
        load: how queries are offered.
        co_tenant_families: supported families of co-tenants (pmoss_env.types.CO_TENANT_FAMILIES).
    """

    name: str
    method: str
    repeatable: bool
    measures_host: bool
    step_cost: float
    incremental: bool
    machine: Machine
    workload: Workload
    slices: int
    load: LoadRegime
    co_tenant_families: tuple[str, ...]

    def set_instance(self, instance: Instance) -> None:
        """Sets hot keys and co-tenants for all later calls."""

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """Measures ``schedule``.

        Raises:
            ScheduleError: this machine cannot run the schedule.
            BackendError: the measurement failed.
        """

    def close(self) -> None:
        """Releases the resources of the backend. Safe to repeat."""


@runtime_checkable
class IncrementalBackend(Backend, Protocol):
    """A backend cheap enough to be asked after every move.

    ``measure`` makes the measured schedule the current one.
    """

    def place(self, schedule: Schedule) -> float:
        """Makes ``schedule`` the current one; returns its throughput in Mq/s."""

    def move(self, slice_: int, core: int) -> float:
        """Moves one slice and its data to ``core`` and its node; returns the throughput in Mq/s.

        The same bits as ``place`` of the whole schedule.
        """

    def marginal(self, slice_: int) -> Float64Array:
        """(cores,) float64: throughput in Mq/s if ``slice_`` moved to each core; NaN if no worker.

        The current schedule stays.
        """


class SubjectBackend:
    """Base of the backends here.

    Args:
        records: number of records in the index; None: the workload's.
    """

    def __init__(self, subject: Subject, records: int | None = None) -> None:
        self.machine = subject.machine
        self.workload = resized(subject.workload, records)
        self.slices = subject.slices
        self.load = subject.load


def incremental(backend: Backend) -> IncrementalBackend | None:
    """The backend as an IncrementalBackend; None if it is not incremental."""
    return cast(IncrementalBackend, backend) if backend.incremental else None


def check_dispatch(dispatch: str, load: LoadRegime) -> None:
    """Checks a kind of dispatch.

    Raises:
        UnsupportedError: modelled routers under the load "saturated:mix".
    """
    check_name("dispatch", dispatch, DISPATCH)
    if dispatch == "modelled" and load.kind == "saturated:mix":
        raise UnsupportedError(
            "dispatch = 'modelled', load = 'saturated:mix': routers hand out the mix as it is: "
            "choose load = 'saturated'"
        )
