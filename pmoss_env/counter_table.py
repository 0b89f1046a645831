"""Reads and checks ``counters.toml``, the table of counters.

The build of the native module runs this file before anything is installed, so it imports only the
standard library.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
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


#: By key the type of its value; the first group must be there.
_CPU = ({"vendor": str, "meaning": str, "source": str}, {"families": list, "models": list})
_COUNTER = (
    {"name": str, "unit": str, "source": str, "noise": float, "meaning": str, "lost": str},
    {"event": dict, "kernel_only": bool, "perf": list, **dict.fromkeys(MODELS, str)},
)
_EVENT = {"name": str, "unit": str, "scale": float}
_KINDS = {"hardware": str, "software": str, "cache": str, "raw": int, "name": str}
_CACHE, _RAW = {"operation": str, "result": str}, {"offcore": int, "event": str, "note": str}


def _checked(
    values: Any, where: str, keys: tuple[Mapping[str, type], Mapping[str, type]]
) -> dict[str, Any]:
    """A table of the file whose keys are known and whose values have their types."""
    if not isinstance(values, dict):
        raise CounterTableError(f"{where}: must be a table")
    kinds = {**keys[0], **keys[1]}
    for key, value in values.items():
        _check_known(key, kinds, f"{where}: key")
        if type(value) is not kinds[key] and (kinds[key], type(value)) != (float, int):
            words = {str: "one line of text", float: "a number", bool: "true or false"}
            rule = words.get(kinds[key], f"a {kinds[key].__name__}")
            raise CounterTableError(f"{where}: {key} = {value!r}: must be {rule}")
        if isinstance(value, str) and not (value.strip() and value.isprintable()):
            raise CounterTableError(f"{where}: {key} = {value!r}: must be one line of text")
    for key in keys[0]:
        if key not in values:
            raise CounterTableError(f"{where}: {key}: is missing")
    return values


def _table(raw: Mapping[str, Any]) -> CounterTable:
    parts = ({"counter": list}, {"cpus": dict, "extra_counter": list})
    values = _checked(raw, "the file", parts)
    cpus = {name: _cpu_kind(name, row) for name, row in values.get("cpus", {}).items()}
    counters, extra = (
        tuple(_counter(row, number, cpus) for number, row in enumerate(values.get(key, []), 1))
        for key in ("counter", "extra_counter")
    )
    _check_distinct((*counters, *extra), cpus)
    for counter in extra:
        if counter.source != "hardware" or counter.models:
            raise CounterTableError(f"counter {counter.name!r}: an extra one is the hardware's")
    return CounterTable(counters, extra, cpus)


def _cpu_kind(name: str, values: Any) -> CpuKind:
    where = f"cpus.{_checked_name(name, 'cpus')}"
    row = {"families": [], "models": [], **_checked(values, where, _CPU)}
    _check_known(row["vendor"], VENDORS, f"{where}: vendor")
    ranges = [value if isinstance(value, list) else [value, value] for value in row["models"]]
    numbers = [*row["families"], *(end for ends in ranges for end in ends)]
    if not all(type(n) is int and n >= 0 for n in numbers):
        raise CounterTableError(f"{where}: families and models: must be whole numbers")
    if not all(len(ends) == 2 and ends[0] <= ends[1] for ends in ranges):
        raise CounterTableError(f"{where}: models = {ranges}: must be [FIRST, LAST] each")
    if row["vendor"] == "arm" and numbers:
        raise CounterTableError(f"{where}: families and models are those of cpuid: Arm has none")
    row["families"], row["models"] = tuple(row["families"]), tuple(map(tuple, ranges))
    return CpuKind(name, **row)


def _counter(values: Any, number: int, cpus: Mapping[str, CpuKind]) -> Counter:
    name = values.get("name", number) if isinstance(values, dict) else number
    where = f"counter {name!r}"
    row = dict(_checked(values, where, _COUNTER))
    _checked_name(row["name"], where)
    _check_known(source := row["source"], get_args(CounterSource), f"{where}: source")
    if not 0 <= row["noise"] < 1:
        raise CounterTableError(f"{where}: noise = {row['noise']!r}: must be a number in [0, 1)")
    if source == "runtime" and {"perf", "event", "kernel_only"} & row.keys():
        raise CounterTableError(f"{where}: perf: the kernel does not count what the runtime does")
    row["models"] = {model: row.pop(model) for model in MODELS if model in row}
    row["perf"] = tuple(
        _encoding(code, f"{where}: perf {place}", cpus, source)
        for place, code in enumerate(row.get("perf", []), 1)
    )
    event = row.pop("event", None)
    if event is not None:
        event = _checked(event, f"{where}: event", (_EVENT, {}))
        _check_known(event["unit"], ("count", "cycles", "ns"), f"{where}: event: unit")
        if not 0 < event["scale"] < float("inf"):
            raise CounterTableError(f"{where}: event: scale = {event['scale']!r}: must be positive")
        _checked_name(event["name"], where)
        row |= {f"event_{key}": event[key] for key in ("unit", "scale")} | {"event": event["name"]}
    elif source != "runtime":
        row |= {"event": name, "event_unit": "cycles" if row["unit"] == "cycle" else "count"}
    return Counter(**row)


def _encoding(values: Any, where: str, cpus: Mapping[str, CpuKind], source: str) -> Encoding:
    present = [kind for kind in _KINDS if isinstance(values, dict) and kind in values]
    if len(present) != 1:
        raise CounterTableError(f"{where}: must have one of {', '.join(_KINDS)}")
    (kind,) = present
    # Raw codes differ between CPUs; libpfm4 knows by itself which CPU has a name.
    required = {kind: _KINDS[kind], **(_CACHE if kind == "cache" else {})}
    required |= {"on": list, "event": str} if kind == "raw" else {}
    more = _RAW if kind == "raw" else {} if kind == "name" else {"on": list}
    row = dict(_checked(values, where, (required, more)))
    if (kind == "software") != (source == "software"):
        raise CounterTableError(f"{where}: {kind}: does not fit source = {source!r}")
    row["on"] = tuple(row.get("on", ()))
    for name in row["on"]:
        _check_known(name, tuple(cpus), f"{where}: on")
    value = row.pop(kind)
    if kind == "raw" and not (row["on"] and 0 < value < 2**64 > row.get("offcore", 0) >= 0):
        raise CounterTableError(f"{where}: raw = {value!r}: must be a code of the CPUs in on")
    if kind == "name" and not re.fullmatch(r"[A-Z0-9_.:=]+", value):
        raise CounterTableError(f"{where}: name = {value!r}: is no name of libpfm4")
    if kind == "cache":
        value = (value, row.pop("operation"), row.pop("result"))
        for word, known in zip(value, (CACHES, OPERATIONS, RESULTS), strict=True):
            _check_known(word, known, f"{where}: cache")
    elif kind in ("hardware", "software"):
        _check_known(value, HARDWARE if kind == "hardware" else SOFTWARE, f"{where}: {kind}")
    return Encoding(kind, value, **row)  # type: ignore[arg-type]


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
