"""The table of counters, ``counters.toml``: read and checked.

The build of the native module reads the table with this file, before anything is installed.
Therefore it imports nothing but the standard library.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

TABLE = Path(__file__).with_name("counters.toml")

CounterSource = Literal["runtime", "software", "hardware"]
#: The backends that compute counters instead of counting.
MODELS = ("analytic", "simulated")
VENDORS = ("intel", "amd", "arm")
#: The kernel's names of perf_event_open(2), in lower case, without their common beginning.
HARDWARE = (
    *("cpu_cycles", "ref_cpu_cycles", "bus_cycles", "instructions"),
    *("branch_instructions", "branch_misses"),
    *("stalled_cycles_frontend", "stalled_cycles_backend"),
)
SOFTWARE = (
    *("cpu_clock", "task_clock", "context_switches", "cpu_migrations"),
    *("page_faults", "page_faults_min", "page_faults_maj"),
    *("alignment_faults", "emulation_faults"),
)
CACHES = ("l1d", "l1i", "ll", "dtlb", "itlb", "bpu", "node")
OPERATIONS = ("read", "write", "prefetch")
RESULTS = ("access", "miss")

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class CounterTableError(ValueError):
    """A table of counters with a missing, unknown or impossible value."""


@dataclass(frozen=True)
class CpuKind:
    """CPUs that use the same codes for the same events.

    Attributes:
        name: what encodings call it.
        vendor: one of VENDORS.
        families: of cpuid; empty for all.
        models: of cpuid; empty for all.
        meaning: which CPUs these are, in words.
    """

    name: str
    vendor: str
    families: tuple[int, ...]
    models: tuple[int, ...]
    meaning: str


@dataclass(frozen=True)
class Encoding:
    """One way to ask the kernel for an event.

    Attributes:
        kind: "hardware", "software", "cache", "raw" or "name".
        value: the kernel's name; ``(cache, operation, result)``; the code; or libpfm4's name.
        on: names of the kinds of CPU that it is for; empty for all.
    """

    kind: Literal["hardware", "software", "cache", "raw", "name"]
    value: str | int | tuple[str, str, str]
    on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counter:
    """One event of the counter vocabulary.

    Attributes:
        name: canonical name, the same in C++, Python, datasets and docs.
        unit: what one count is. A snapshot holds rates: million counts per second, so a time
            counted in microseconds reads as "cores busy".
        source: who counts it: our own runtime, the kernel, or the PMU.
        noise: coefficient of variation between repeated sweeps of the same schedule on real
            hardware (the published Skylake-X run, 40 s ticks), used by the ``noise`` argument.
        meaning: what is counted.
        lost: what cannot be seen without it.
        models: how each of MODELS that computes it does so.
        event: the kernel-side name; empty if the kernel does not count it.
        event_unit: unit of what the kernel counts: "count", "cycles" or "ns".
        event_scale: of the kernel's unit, in the counter's.
        kernel_only: whether it counts in the kernel's mode only.
        perf: how the kernel is asked for it; the first that fits the CPU holds.
    """

    name: str
    unit: str
    source: CounterSource
    noise: float
    meaning: str = ""
    lost: str = ""
    models: Mapping[str, str] = field(default_factory=dict, hash=False)
    event: str = ""
    event_unit: str = "count"
    event_scale: float = 1.0
    kernel_only: bool = False
    perf: tuple[Encoding, ...] = ()


@dataclass(frozen=True)
class CounterTable:
    """The whole table.

    Attributes:
        counters: in the order of every counter vector.
        cpus: the kinds of CPU that encodings are for, by name.
    """

    counters: tuple[Counter, ...]
    cpus: Mapping[str, CpuKind]


def read_table(path: Path = TABLE) -> CounterTable:
    """Reads and checks a table.

    Raises:
        CounterTableError: the first thing that is wrong, in one line.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CounterTableError(f"{path}: cannot be read: {error}") from error
    try:
        return _table(raw)
    except CounterTableError as error:
        raise CounterTableError(f"{path}: {error}") from error


def _table(raw: Mapping[str, Any]) -> CounterTable:
    _check_keys(raw, ("cpus", "counter"), "the file")
    cpus = {name: _cpu_kind(name, row) for name, row in raw.get("cpus", {}).items()}
    rows = raw.get("counter")
    if not isinstance(rows, list) or not rows:
        raise CounterTableError("counter: there are none: add a [[counter]]")
    counters = tuple(_counter(row, number, cpus) for number, row in enumerate(rows))
    _check_distinct(counters, cpus)
    return CounterTable(counters, cpus)


def _cpu_kind(name: str, row: Any) -> CpuKind:
    where = f"cpus.{name}"
    _check_name(name, where)
    _check_keys(row, ("vendor", "families", "models", "meaning"), where)
    vendor = _text(row, "vendor", where)
    _check_known(vendor, VENDORS, f"{where}: vendor")
    numbers = {}
    for key in ("families", "models"):
        values = row.get(key, [])
        if not isinstance(values, list) or not all(type(v) is int and v >= 0 for v in values):
            raise CounterTableError(f"{where}: {key} = {values!r}: must be whole numbers")
        numbers[key] = tuple(values)
    if vendor == "arm" and any(numbers.values()):
        raise CounterTableError(f"{where}: families and models are those of cpuid: Arm has none")
    return CpuKind(name, vendor, **numbers, meaning=_text(row, "meaning", where))


_KEYS = ("name", "unit", "source", "noise", "meaning", "lost", "event", "kernel_only", "perf")


def _counter(row: Any, number: int, cpus: Mapping[str, CpuKind]) -> Counter:
    where = f"counter {number + 1}"
    if not isinstance(row, dict):
        raise CounterTableError(f"{where}: must be a table")
    name = _text(row, "name", where)
    where = f"counter {name!r}"
    _check_name(name, where)
    _check_keys(row, (*_KEYS, *MODELS), where)
    unit = _text(row, "unit", where)
    source: Any = _text(row, "source", where)
    _check_known(source, get_args(CounterSource), f"{where}: source")
    noise = row.get("noise")
    if not isinstance(noise, int | float) or isinstance(noise, bool) or not 0 <= noise < 1:
        raise CounterTableError(f"{where}: noise = {noise!r}: must be a number in [0, 1)")
    kernel_only = row.get("kernel_only", False)
    if not isinstance(kernel_only, bool):
        raise CounterTableError(f"{where}: kernel_only = {kernel_only!r}: must be true or false")
    perf = tuple(_encodings(row.get("perf", []), cpus, source, where))
    event = _event(row, name, unit, where) if source != "runtime" else {}
    if source == "runtime" and {"perf", "event", "kernel_only"} & row.keys():
        raise CounterTableError(f"{where}: perf: the kernel does not count what the runtime does")
    return Counter(
        name=name,
        unit=unit,
        source=source,
        noise=float(noise),
        meaning=_text(row, "meaning", where),
        lost=_text(row, "lost", where),
        models={model: _text(row, model, where) for model in MODELS if model in row},
        kernel_only=kernel_only,
        perf=perf,
        **event,
    )


def _event(row: Mapping[str, Any], name: str, unit: str, where: str) -> dict[str, Any]:
    """What the kernel calls the counter, and in which unit it counts."""
    if "event" not in row:
        return {"event": name, "event_unit": "cycles" if unit == "cycle" else "count"}
    event = row["event"]
    where = f"{where}: event"
    _check_keys(event, ("name", "unit", "scale"), where)
    kernel_name = _text(event, "name", where)
    _check_name(kernel_name, where)
    event_unit = _text(event, "unit", where)
    _check_known(event_unit, ("count", "cycles", "ns"), f"{where}: unit")
    scale = event.get("scale")
    if not isinstance(scale, float) or not 0 < scale < float("inf"):
        raise CounterTableError(f"{where}: scale = {scale!r}: must be a positive number")
    return {"event": kernel_name, "event_unit": event_unit, "event_scale": scale}


def _encodings(
    rows: Any, cpus: Mapping[str, CpuKind], source: str, where: str
) -> Iterator[Encoding]:
    if not isinstance(rows, list):
        raise CounterTableError(f"{where}: perf = {rows!r}: must be a list")
    for number, row in enumerate(rows):
        place = f"{where}: perf {number + 1}"
        kinds = ("hardware", "software", "cache", "raw", "name")
        _check_keys(row, (*kinds, "operation", "result", "on"), place)
        found = [kind for kind in kinds if kind in row]
        if len(found) != 1:
            raise CounterTableError(f"{place}: must have one of {', '.join(kinds)}")
        if (found[0] == "software") != (source == "software"):
            raise CounterTableError(f"{place}: {found[0]}: does not fit source = {source!r}")
        on = row.get("on", [])
        if not isinstance(on, list):
            raise CounterTableError(f"{place}: on = {on!r}: must be a list")
        for name in on:
            _check_known(name, cpus, f"{place}: on")
        if found[0] == "raw" and not on:
            raise CounterTableError(f"{place}: on: is missing: raw codes differ between CPUs")
        if found[0] == "name" and on:
            raise CounterTableError(f"{place}: on: libpfm4 knows by itself which CPU has the name")
        kind: Any = found[0]
        yield Encoding(kind, _code(row, kind, place), tuple(on))


def _code(row: Mapping[str, Any], kind: str, where: str) -> str | int | tuple[str, str, str]:
    if kind == "raw":
        code = row["raw"]
        if type(code) is not int or not 0 < code < 2**64:
            raise CounterTableError(f"{where}: raw = {code!r}: must be a code of up to 64 bits")
        return code
    value = _text(row, kind, where)
    if kind == "name":
        if not re.fullmatch(r"[A-Z0-9_.:=]+", value):
            raise CounterTableError(f"{where}: name = {value!r}: is no name of libpfm4")
        return value
    if kind != "cache":
        _check_known(value, HARDWARE if kind == "hardware" else SOFTWARE, f"{where}: {kind}")
        return value
    operation, result = _text(row, "operation", where), _text(row, "result", where)
    _check_known(value, CACHES, f"{where}: cache")
    _check_known(operation, OPERATIONS, f"{where}: operation")
    _check_known(result, RESULTS, f"{where}: result")
    return value, operation, result


def _check_distinct(counters: tuple[Counter, ...], cpus: Mapping[str, CpuKind]) -> None:
    """No name twice, and no code that counts under two names on one kind of CPU."""
    for what in ("name", "event"):
        seen: set[str] = set()
        for counter in counters:
            name = getattr(counter, what)
            if name and name in seen:
                raise CounterTableError(f"counter {counter.name!r}: {what} {name!r} is there twice")
            seen.add(name)
    owner: dict[tuple[object, str], str] = {}
    for counter in counters:
        for code in counter.perf:
            for kind in code.on or ("", *cpus):
                other = owner.setdefault(((code.kind, code.value), kind), counter.name)
                if other != counter.name:
                    raise CounterTableError(
                        f"counter {counter.name!r}: perf: {code.kind} {code.value}: is that of "
                        f"{other!r}, too"
                    )


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    if key not in row:
        raise CounterTableError(f"{where}: {key}: is missing")
    value = row[key]
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise CounterTableError(f"{where}: {key} = {value!r}: must be one line of text")
    return value


def _check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name):
        raise CounterTableError(f"{where}: {name!r}: must be lower case letters, digits and _")


def _check_known(value: object, known: Any, where: str) -> None:
    if value not in known:
        raise CounterTableError(f"{where} = {value!r}: unknown; known are {', '.join(known)}")


def _check_keys(row: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(row, dict):
        raise CounterTableError(f"{where}: must be a table")
    for key in row:
        _check_known(key, known, f"{where}: key")
