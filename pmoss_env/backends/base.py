"""The protocol of a backend: what measures schedules, and what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from pmoss_env.errors import UnknownNameError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, HardwareSnapshot, Instance, LoadRegime, Schedule
from pmoss_env.workloads import Workload, resized

#: How queries come to their workers on a modelled machine: at once, or through routers that take
#: the machine's ``dispatch_ns`` for each.
DISPATCH = ("ideal", "modelled")


@dataclass(frozen=True)
class Subject:
    """What a backend measures.

    Attributes:
        machine: the server.
        workload: what the index gets; it names the index.
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
        name: as in the environment's ``backend`` argument, e.g. "analytic".
        method: how it measures, as the beginning of a sentence for people.
        repeatable: whether the same instance, schedule and seed give the same bits every time.
        measures_host: whether it measures the machine that this process runs on.
        step_cost: roughly what the throughput of one more schedule takes, in seconds.
        incremental: whether it implements IncrementalBackend.
        machine: what is measured.
        workload: what the index gets.
        slices: number of key ranges or cells.
        load: how queries are offered.
        co_tenant_families: the families of co-tenants (pmoss_env.types.CO_TENANT_FAMILIES) that it
            can run.
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
        """Chooses which keys are hot and which co-tenants there are, for all later calls."""

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """Runs ``schedule`` and returns its snapshot.

        Args:
            schedule: a place for every slice.
            seed: seeds whatever is random in the measurement.

        Raises:
            ScheduleError: this machine cannot run the schedule.
            BackendError: the measurement failed.
        """

    def close(self) -> None:
        """Releases what the backend holds. Safe to repeat."""


@runtime_checkable
class IncrementalBackend(Backend, Protocol):
    """A backend cheap enough to be asked after every single move.

    ``measure`` makes the schedule that it measures the current one.
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
    """What all backends of ours have in common.

    Args:
        subject: what is measured.
        records: records in the index, instead of the workload's.
    """

    def __init__(self, subject: Subject, records: int | None = None) -> None:
        self.machine = subject.machine
        self.workload = resized(subject.workload, records)
        self.slices = subject.slices
        self.load = subject.load


def incremental(backend: Backend) -> IncrementalBackend | None:
    """The same backend as one that can be asked after every move; None if it cannot."""
    return cast(IncrementalBackend, backend) if backend.incremental else None


def check_dispatch(dispatch: str, load: LoadRegime) -> None:
    """Raises unless queries can come to their workers so.

    Raises:
        UnknownNameError: none of DISPATCH.
        UnsupportedError: routers that hand out the mix as it is, where the mix rate is asked for.
    """
    if dispatch not in DISPATCH:
        raise UnknownNameError("dispatch", dispatch, DISPATCH)
    if dispatch == "modelled" and load.kind == "saturated:mix":
        raise UnsupportedError(
            "dispatch = 'modelled', load = 'saturated:mix': routers hand out the mix as it is: "
            "choose load = 'saturated'"
        )
