"""The catalogue of backends."""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Any, cast

from pmoss_env.backends.base import Backend, Subject
from pmoss_env.backends.native_forms import record_shares
from pmoss_env.entry_points import entries
from pmoss_env.entry_points import load as load_entry
from pmoss_env.errors import ScheduleError, UnknownNameError, UnsupportedError
from pmoss_env.indexes import DEFAULT, holds_points, is_plugin
from pmoss_env.machines import Machine, load_machine
from pmoss_env.platforms import require_host
from pmoss_env.types import LoadRegime
from pmoss_env.workloads import Workload, load_workload
from pmoss_env.workloads.description import WORD_BYTES

_log = logging.getLogger(__name__)

#: Group of entry points by which packages add backends. The constructor of the class takes a
#: Subject and keyword-only options.
GROUP = "pmoss.backends"
_OWN = {
    name: EntryPoint(name, f"pmoss_env.backends.{place}", GROUP)
    for name, place in {
        "analytic": "analytic:AnalyticBackend",
        "simulated": "simulated:SimulatedBackend",
        "hardware": "isolated:IsolatedBackend",
    }.items()
}


def backend_names() -> list[str]:
    """The names for make_backend(), those of other packages last."""
    return [*_OWN, *entries(GROUP, own=_OWN)]


def backend_class(name: str) -> type[Backend]:
    """The class of a backend; its attributes describe its abilities.

    Raises:
        UnknownNameError: no such backend.
        PluginError: a backend of another package that cannot be loaded.
    """
    if not isinstance(name, str):
        raise UnknownNameError("backend", name, backend_names())
    entry = _OWN.get(name) or entries(GROUP, own=_OWN).get(name)
    if entry is None:
        raise UnknownNameError("backend", name, backend_names())
    return cast(type[Backend], load_entry(entry))


def backend_options(name: str) -> list[str]:
    """The names of a backend's options.

    Raises:
        UnknownNameError: no such backend.
        PluginError: a backend of another package that cannot be loaded.
    """
    kind: type[Any] = backend_class(name)
    wrapped = getattr(kind, "wraps", None)
    return [*_options(kind), *(_options(wrapped) if wrapped else ())]


def make_backend(
    name: str,
    *,
    machine: str | Machine,
    workload: str | Workload,
    index: str = DEFAULT,
    slices: int = 256,
    load: str = "closed",
    **options: Any,
) -> Backend:
    """Makes a backend.

    Args:
        name: "analytic", "simulated", "hardware" or a backend of another package.
        machine: a catalogue name, a path, or a machine.
        workload: a catalogue name, a path, or a workload.
        index: a name of pmoss_env.indexes; must equal the workload's.
        slices: number of key ranges, 1 to 65536.
        load: "closed", "saturated", "saturated:mix" or "open:<Mq/s>".
        **options: of the backend's class, e.g. ``seconds`` of a hardware measurement. The hardware
            backend measures in a process of its own unless ``own_process`` is False.

    Raises:
        UnknownNameError: a name in no catalogue.
        UnsupportedError: an unknown option, or a workload for another index.
        PluginError: a backend of another package that cannot be loaded.
    """
    takes = backend_options(name)
    points = holds_points(index)
    if name in _OWN and backend_class(name).measures_host:
        require_host(f"the backend {name!r}")
    if isinstance(machine, str):
        machine = load_machine(machine)
    if isinstance(workload, str):
        workload = load_workload(workload)
    if is_plugin(index):
        if not backend_class(name).measures_host and "recording" not in takes:
            raise UnsupportedError(
                f"index = {index!r}: the {name} backend takes no recording of a library; use "
                "hardware, analytic or simulated"
            )
        if not holds_points(workload.index):
            workload = replace(workload, index=index)  # every library holds keys
    if workload.index != index:
        raise UnsupportedError(
            f"index = {index!r}: the workload {workload.name!r} is for index={workload.index!r}"
        )
    if workload.value_bytes != WORD_BYTES and not backend_class(name).measures_host:
        raise UnsupportedError(
            f"workload {workload.name!r}: value_bytes = {workload.value_bytes}: the {name} backend "
            f"models values of {WORD_BYTES} bytes; measure larger ones with hardware"
        )
    if not 1 <= slices <= 65536:
        raise ScheduleError(f"slices = {slices}: must lie between 1 and 65536")
    regime = LoadRegime.parse(load)
    # A backend in a process of its own passes its options on to the wrapped one.
    kind: type[Any] = backend_class(name)
    wrapped: type[Any] | None = getattr(kind, "wraps", None)
    if wrapped and not options.pop("own_process", True):
        kind, takes = wrapped, _options(wrapped)
    for option in options:
        if option not in takes:
            raise UnsupportedError(
                f"the {name} backend takes no option {option!r}; "
                f"it takes {', '.join(takes) or 'none'}"
            )
    backend: Backend = kind(Subject(machine, workload, slices, regime), **options)
    if not points:  # many cells of a plane are empty as a matter of course
        _warn_of_empty_slices(workload, slices)
    return backend


def _options(kind: type[Any]) -> list[str]:
    parameters = inspect.signature(kind).parameters.values()
    return [option.name for option in parameters if option.kind is option.KEYWORD_ONLY]


@lru_cache(maxsize=32)
def _warn_of_empty_slices(workload: Workload, slices: int) -> None:
    """Warns, once per workload, of slices without queries."""
    empty = record_shares(workload, slices).count(0.0)
    if empty:
        _log.warning(
            "workload %r leaves %d of %d slices empty: their placement changes nothing",
            workload.name,
            empty,
            slices,
        )
