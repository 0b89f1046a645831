"""Reads and checks ``counters.toml``, the table of counters.

The build of the native module runs this file before anything is installed, so it imports only the
standard library.
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
#: The backends that compute counters.
MODELS = ("analytic", "simulated")
VENDORS = ("intel", "amd", "arm")
#: Names of perf_event_open(2), in lower case and without their common prefix.
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
    """CPUs with the same codes for the same events.

    Attributes:
        families: of cpuid; empty for all.
        models: first and last of each range, of cpuid; empty for all.
        source: the list of events that raw codes are from.
    """

    name: str
    vendor: str
    families: tuple[int, ...]
    models: tuple[tuple[int, int], ...]
    meaning: str
    source: str


@dataclass(frozen=True)
class Encoding:
    """An encoding of an event for the kernel.

    Attributes:
        kind: "hardware", "software", "cache", "raw" or "name".
        value: the kernel's name; ``(cache, operation, result)``; the code; or libpfm4's name.
        on: names of the kinds of CPU; empty for all.
        offcore: of a raw code, the value of Intel's register of off-core responses.
        event: of a raw code, the names of its events in the list of the CPU's maker.
        note: how the event differs from the counter's meaning.
    """

    kind: Literal["hardware", "software", "cache", "raw", "name"]
    value: str | int | tuple[str, str, str]
    on: tuple[str, ...] = ()
    offcore: int = 0
    event: str = ""
    note: str = ""


@dataclass(frozen=True)
class Counter:
    """A counter.

    Attributes:
        name: canonical name, the same in C++, Python, datasets and docs.
        unit: unit of a count. A snapshot holds rates in million counts per second, so a time in
            microseconds reads as "cores busy".
        source: counted by our own runtime, the kernel, or the PMU.
        noise: coefficient of variation between repeated sweeps of the same schedule on real
            hardware (the published Skylake-X run, 40 s ticks), for the ``noise`` argument.
        models: how each model in MODELS computes it.
        event: the kernel's name; empty if the kernel does not count it.
        event_unit: unit of the kernel's counts: "count", "cycles" or "ns".
        event_scale: factor from the kernel's unit to the counter's.
        kernel_only: whether it only counts in kernel mode.
        perf: encodings; the first that fits the CPU is used.
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
    """The table of counters.

    Attributes:
        counters: in the order of every counter vector.
        extra: counted on hardware alone, and in no vector.
    """

    counters: tuple[Counter, ...]
    extra: tuple[Counter, ...]
    cpus: Mapping[str, CpuKind]


def read_table(path: Path = TABLE) -> CounterTable:
    """Reads and checks a table.

    Raises:
        CounterTableError: the first error, in one line.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CounterTableError(f"{path}: cannot be read: {error}") from error
    try:
        return _table(raw)
    except CounterTableError as error:
        raise CounterTableError(f"{path}: {error}") from error


class _Row:
    """A table of the file, with its name for errors."""

    def __init__(self, values: Any, where: str, keys: tuple[str, ...] | None = None) -> None:
        self.values, self.where = values, where
        if not isinstance(values, dict):
            raise self.error("must be a table")
        for key in values if keys is not None else ():
            _check_known(key, keys, f"{where}: key")

    def error(self, text: str) -> CounterTableError:
        return CounterTableError(f"{self.where}: {text}")

    def text(self, key: str) -> str:
        if key not in self.values:
            raise self.error(f"{key}: is missing")
        value = self.values[key]
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.error(f"{key} = {value!r}: must be one line of text")
        return value

    def name(self, key: str = "name") -> str:
        return _checked_name(self.text(key), self.where)

    def choice(self, key: str, known: Any) -> Any:
        value = self.text(key)
        _check_known(value, known, f"{self.where}: {key}")
        return value

    def list(self, key: str) -> list[Any]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.error(f"{key} = {value!r}: must be a list")
        return value


def _table(raw: Mapping[str, Any]) -> CounterTable:
    _Row(raw, "the file", ("cpus", "counter", "extra_counter"))
    cpus = {name: _cpu_kind(name, row) for name, row in raw.get("cpus", {}).items()}
    rows = raw.get("counter")
    if not isinstance(rows, list) or not rows:
        raise CounterTableError("counter: there are none: add a [[counter]]")
    more = raw.get("extra_counter", [])
    every = tuple(_counter(row, number, cpus) for number, row in enumerate([*rows, *more]))
    _check_distinct(every, cpus)
    for counter in every[len(rows) :]:
        if counter.source != "hardware" or counter.models:
            raise CounterTableError(f"counter {counter.name!r}: an extra one is the hardware's")
    return CounterTable(every[: len(rows)], every[len(rows) :], cpus)


def _cpu_kind(name: str, values: Any) -> CpuKind:
    row = _Row(values, f"cpus.{name}", ("vendor", "families", "models", "meaning", "source"))
    _checked_name(name, row.where)
    vendor = row.choice("vendor", VENDORS)
    families, models = row.list("families"), row.list("models")
    if not all(type(value) is int and value >= 0 for value in families):
        raise row.error(f"families = {families!r}: must be whole numbers")
    if vendor == "arm" and (families or models):
        raise row.error("families and models are those of cpuid: Arm has none")
    ranges = tuple(_model_range(row, value) for value in models)
    return CpuKind(name, vendor, tuple(families), ranges, row.text("meaning"), row.text("source"))


def _model_range(row: _Row, value: Any) -> tuple[int, int]:
    """First and last of a range of models, which may be one number."""
    ends = value if isinstance(value, list) else [value, value]
    if len(ends) != 2 or not all(type(end) is int for end in ends) or not 0 <= ends[0] <= ends[1]:
        raise row.error(f"models: {value!r}: must be a whole number or [FIRST, LAST]")
    return ends[0], ends[1]


_KEYS = ("name", "unit", "source", "noise", "meaning", "lost", "event", "kernel_only", "perf")


def _counter(values: Any, number: int, cpus: Mapping[str, CpuKind]) -> Counter:
    name = _Row(values, f"counter {number + 1}").text("name")
    row = _Row(values, f"counter {name!r}", (*_KEYS, *MODELS))
    row.name()
    source: CounterSource = row.choice("source", get_args(CounterSource))
    noise = values.get("noise")
    if not isinstance(noise, int | float) or isinstance(noise, bool) or not 0 <= noise < 1:
        raise row.error(f"noise = {noise!r}: must be a number in [0, 1)")
    kernel_only = values.get("kernel_only", False)
    if not isinstance(kernel_only, bool):
        raise row.error(f"kernel_only = {kernel_only!r}: must be true or false")
    if source == "runtime" and {"perf", "event", "kernel_only"} & values.keys():
        raise row.error("perf: the kernel does not count what the runtime does")
    return Counter(
        name=name,
        unit=row.text("unit"),
        source=source,
        noise=float(noise),
        meaning=row.text("meaning"),
        lost=row.text("lost"),
        models={model: row.text(model) for model in MODELS if model in values},
        kernel_only=kernel_only,
        perf=tuple(_encodings(row, cpus, source)),
        **(_event(row) if source != "runtime" else {}),
    )


def _event(row: _Row) -> dict[str, Any]:
    """The kernel's name of a counter, and the unit of its counts."""
    if "event" not in row.values:
        unit = "cycles" if row.text("unit") == "cycle" else "count"
        return {"event": row.name(), "event_unit": unit}
    event = _Row(row.values["event"], f"{row.where}: event", ("name", "unit", "scale"))
    scale = event.values.get("scale")
    if not isinstance(scale, float) or not 0 < scale < float("inf"):
        raise event.error(f"scale = {scale!r}: must be a positive number")
    unit = event.choice("unit", ("count", "cycles", "ns"))
    return {"event": event.name(), "event_unit": unit, "event_scale": scale}


_OF_ENCODINGS = ("operation", "result", "on", "offcore", "event", "note")


def _encodings(counter: _Row, cpus: Mapping[str, CpuKind], source: str) -> Iterator[Encoding]:
    kinds = ("hardware", "software", "cache", "raw", "name")
    for number, values in enumerate(counter.list("perf")):
        place = f"{counter.where}: perf {number + 1}"
        row = _Row(values, place, (*kinds, *_OF_ENCODINGS))
        present = [kind for kind in kinds if kind in values]
        if len(present) != 1:
            raise row.error(f"must have one of {', '.join(kinds)}")
        kind: Any = present[0]
        if (kind == "software") != (source == "software"):
            raise row.error(f"{kind}: does not fit source = {source!r}")
        on = row.list("on")
        for name in on:
            _check_known(name, cpus, f"{place}: on")
        if kind == "raw" and not on:
            raise row.error("on: is missing: raw codes differ between CPUs")
        if kind == "name" and on:
            raise row.error("on: libpfm4 knows by itself which CPU has the name")
        if kind != "raw" and {"offcore", "event", "note"} & values.keys():
            raise row.error("offcore, event and note are those of a raw code")
        offcore = values.get("offcore", 0)
        if type(offcore) is not int or not 0 <= offcore < 2**64:
            raise row.error(f"offcore = {offcore!r}: must be a value of up to 64 bits")
        event = row.text("event") if kind == "raw" else ""
        note = row.text("note") if "note" in values else ""
        yield Encoding(kind, _code(row, kind), tuple(on), offcore, event, note)


def _code(row: _Row, kind: str) -> str | int | tuple[str, str, str]:
    if kind == "raw":
        code = row.values["raw"]
        if type(code) is not int or not 0 < code < 2**64:
            raise row.error(f"raw = {code!r}: must be a code of up to 64 bits")
        return code
    value = row.text(kind)
    if kind == "name":
        if not re.fullmatch(r"[A-Z0-9_.:=]+", value):
            raise row.error(f"name = {value!r}: is no name of libpfm4")
    elif kind == "cache":
        operation, result = row.choice("operation", OPERATIONS), row.choice("result", RESULTS)
        return row.choice("cache", CACHES), operation, result
    else:
        row.choice(kind, HARDWARE if kind == "hardware" else SOFTWARE)
    return value


def _check_distinct(counters: tuple[Counter, ...], cpus: Mapping[str, CpuKind]) -> None:
    """Checks that names are unique, and that no code has two names on one kind of CPU."""
    for what in ("name", "event"):
        names = [name for counter in counters if (name := getattr(counter, what))]
        for name in names:
            if names.count(name) > 1:
                raise CounterTableError(f"counter {name!r}: {what} {name!r} is there twice")
    owner: dict[tuple[object, int, str], str] = {}
    for counter in counters:
        for code in counter.perf:
            for kind in code.on or ("", *cpus):
                key = ((code.kind, code.value), code.offcore, kind)
                other = owner.setdefault(key, counter.name)
                if other != counter.name:
                    raise CounterTableError(
                        f"counter {counter.name!r}: perf: {code.kind} {code.value}: is that of "
                        f"{other!r}, too"
                    )


def _checked_name(name: str, where: str) -> str:
    if not _NAME.fullmatch(name):
        raise CounterTableError(f"{where}: {name!r}: must be lower case letters, digits and _")
    return name


def _check_known(value: object, known: Any, where: str) -> None:
    if value not in known:
        raise CounterTableError(f"{where} = {value!r}: unknown; known are {', '.join(known)}")
