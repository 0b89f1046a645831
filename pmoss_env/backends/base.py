"""The protocol of a backend (design.md section 4), and how to make one by name."""

from __future__ import annotations

import inspect
import logging
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from pmoss_env.backends.native_forms import record_shares
from pmoss_env.errors import ScheduleError, UnknownNameError, UnsupportedError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import Float64Array, HardwareSnapshot, Instance, LoadRegime, Schedule
from pmoss_env.workloads import INDEXES, Workload, load_workload

_log = logging.getLogger(__name__)

#: How queries come to their workers on a modelled machine: at once, or through routers that take
#: the machine's ``dispatch_ns`` for each.
DISPATCH = ("ideal", "modelled")


@runtime_checkable
class Backend(Protocol):
    """Measures schedules of one (machine, index, workload, slices, load)."""

    name: str
    machine: Machine
    workload: Workload
    slices: int
    load: LoadRegime
    #: Families of neighbours that it can run (pmoss_env.types.NEIGHBOUR_FAMILIES).
    neighbour_families: tuple[str, ...]

    def set_instance(self, instance: Instance) -> None:
        """Chooses which keys are hot and which neighbours there are, for all later calls."""

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


def check_dispatch(dispatch: str) -> None:
    """Raises UnknownNameError unless ``dispatch`` is one of DISPATCH."""
    if dispatch not in DISPATCH:
        raise UnknownNameError("dispatch", dispatch, DISPATCH)


def backend_names() -> list[str]:
    """Names that make_backend() knows."""
    return ["analytic", "simulated", "hardware"]


def make_backend(
    name: str,
    *,
    machine: str | Machine,
    workload: str | Workload,
    index: str = "btree",
    slices: int = 256,
    load: str = "closed",
    **options: Any,
) -> Backend:
    """Makes a backend.

    Args:
        name: "analytic", "simulated" or "hardware".
        machine: a catalogue name, a path, or a description.
        workload: a catalogue name, a path, or a description.
        index: "btree", or "rtree", as the workload has it.
        slices: number of key ranges, 1 to 65536.
        load: "closed", "saturated" or "open:<Mq/s>".
        **options: of the backend's class, e.g. ``seconds`` of a hardware measurement. The hardware
            backend measures in a process of its own unless ``own_process`` is False.

    Raises:
        UnknownNameError: a name that is in no catalogue.
        UnsupportedError: an option that the backend does not take, or a workload for the
            other index.
    """
    if name not in backend_names():
        raise UnknownNameError("backend", name, backend_names())
    if index not in INDEXES:
        raise UnknownNameError("index", index, list(INDEXES))
    if isinstance(machine, str):
        machine = load_machine(machine)
    if isinstance(workload, str):
        workload = load_workload(workload)
    if workload.index != index:
        raise UnsupportedError(
            f"index = {index!r}: the workload {workload.name!r} is for index={workload.index!r}"
        )
    if not 1 <= slices <= 65536:
        raise ScheduleError(f"slices = {slices}: must lie between 1 and 65536")
    regime = LoadRegime.parse(load)
    own_process = name != "hardware" or options.pop("own_process", True)
    kinds = _kinds(name, own_process)
    takes = [
        option.name
        for kind in kinds
        for option in inspect.signature(kind).parameters.values()
        if option.kind is option.KEYWORD_ONLY
    ]
    for option in options:
        if option not in takes:
            raise UnsupportedError(
                f"the {name} backend takes no option {option!r}; "
                f"it takes {', '.join(takes) or 'none'}"
            )
    backend: Backend = kinds[0](machine, workload, slices, regime, **options)
    if index == "btree":  # of a plane's cells many are empty as a matter of course
        _tell_of_empty_slices(workload, slices)
    return backend


@lru_cache(maxsize=32)
def _tell_of_empty_slices(workload: Workload, slices: int) -> None:
    """Says, once for each workload, how many slices no query will come to."""
    empty = record_shares(workload, slices).count(0.0)
    if empty:
        _log.warning(
            "workload %r leaves %d of %d slices empty: wherever they go, nothing changes",
            workload.name,
            empty,
            slices,
        )


def _kinds(name: str, own_process: bool) -> list[type[Any]]:
    """The class of a backend, then those whose options it takes as well; imported when needed."""
    if name == "analytic":
        from pmoss_env.backends.analytic import AnalyticBackend

        return [AnalyticBackend]
    if name == "simulated":
        from pmoss_env.backends.simulated import SimulatedBackend

        return [SimulatedBackend]
    from pmoss_env.backends.hardware import HardwareBackend

    if not own_process:
        return [HardwareBackend]
    from pmoss_env.backends.isolated import IsolatedBackend

    return [IsolatedBackend, HardwareBackend]
