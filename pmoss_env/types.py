"""Schedules, hardware snapshots, co-tenants and the counter vocabulary.

Plain frozen dataclasses over NumPy arrays. Every number has its unit in its name or in the
vocabulary below.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pmoss_env.counter_table import Counter, read_table
from pmoss_env.errors import DescriptionError, ScheduleError, UnknownNameError

Int32Array = npt.NDArray[np.int32]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Int8Array = npt.NDArray[np.int8]


def whole_numbers(name: str, values: Any) -> Int32Array:
    """A copy of ``values`` as (n,) int32; ScheduleError if a value would change.

    Args:
        name: name of the values, for the error.
        values: integers in any form NumPy takes.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists among numbers
        raise ScheduleError(f"{name}: must be a one-dimensional list of whole numbers") from error
    if array.ndim != 1:
        raise ScheduleError(f"{name} has shape {array.shape}: must be one-dimensional")
    if array.size == 0:
        return np.zeros(0, dtype=np.int32)
    if array.dtype == np.int32:
        return array.astype(np.int32)
    if not np.issubdtype(array.dtype, np.integer):
        raise ScheduleError(f"{name} are of type {array.dtype}: must be whole numbers")
    limits = np.iinfo(np.int32)
    outside = (array < limits.min) | (array > limits.max)
    if outside.any():
        raise ScheduleError(f"{name}: {array[outside][0]} does not fit 32 bits")
    return array.astype(np.int32)


#: The H canonical counters, from pmoss_env/counters.toml. A host without an event marks it
#: unavailable. Positions never change: new counters come last.
_TABLE = read_table()
COUNTERS: tuple[Counter, ...] = _TABLE.counters
#: Counted on hardware alone, and in no vector: makers of CPUs mean different things by them.
EXTRA_COUNTERS: tuple[Counter, ...] = _TABLE.extra
COUNTER_NAMES: tuple[str, ...] = tuple(counter.name for counter in COUNTERS)
COUNTER_INDEX: Mapping[str, int] = {name: i for i, name in enumerate(COUNTER_NAMES)}
#: Sets of counters that a snapshot may be limited to, see HardwareSnapshot.limited_to().
READABLE = ("all", "software", "amd", "arm")


def readable_counters(kind: str) -> BoolArray:
    """(H,) whether a set of READABLE has each counter."""
    return np.array([kind == "all" or _is_readable(counter, kind) for counter in COUNTERS])


def _is_readable(counter: Counter, maker: str) -> bool:
    """Whether the table has a code of the maker's own, or the kernel knows one on every CPU."""
    makers = {_TABLE.cpus[name].vendor for code in counter.perf for name in code.on}
    general = any(code.kind == "hardware" and not code.on for code in counter.perf)
    return counter.source != "hardware" or (maker != "software" and (general or maker in makers))


#: A query of a slice runs on its core (SN:T), a random worker of its node (SN:N), or any worker.
Routing = Literal["core", "node", "any"]
#: Pages lie on the slice's node, on all nodes in turn (OS:I), or where first touched (OS:D).
DataPlacement = Literal["slice", "interleaved", "first_touch"]
_ROUTINGS, _DATA_PLACEMENTS = get_args(Routing), get_args(DataPlacement)


@dataclass(frozen=True)
class Schedule:
    """The core that serves each slice, and the node of its data.

    Attributes:
        cores: (slices,) int32, a worker core of the machine for each slice; unused unless the
            routing is "core".
        nodes: (slices,) int32, the NUMA node of each slice's data.
        routing: "core" unless workers share slices, as in the paper's SN:N, SE:N and OS schedules.
        data: "slice" unless the operating system places pages.
    """

    cores: Int32Array
    nodes: Int32Array
    routing: Routing = "core"
    data: DataPlacement = "slice"

    def __post_init__(self) -> None:
        if self.routing not in _ROUTINGS:
            raise UnknownNameError("routing", self.routing, _ROUTINGS)
        if self.data not in _DATA_PLACEMENTS:
            raise UnknownNameError("data placement", self.data, _DATA_PLACEMENTS)
        for name in ("cores", "nodes"):
            values = whole_numbers(name, getattr(self, name))
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if self.cores.shape != self.nodes.shape:
            raise ScheduleError(
                f"{self.cores.size} cores but {self.nodes.size} nodes: must be as many"
            )

    @property
    def slices(self) -> int:
        """Number of slices placed."""
        return int(self.cores.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return (
            np.array_equal(self.cores, other.cores)
            and np.array_equal(self.nodes, other.nodes)
            and (self.routing, self.data) == (other.routing, other.data)
        )

    def __hash__(self) -> int:
        return hash((self.cores.tobytes(), self.nodes.tobytes(), self.routing, self.data))


#: Most queries in flight per worker.
MAX_OUTSTANDING = 1_000_000
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def plain_number(text: str) -> float | None:
    """The finite number that a text in ASCII digits denotes; None for other texts.

    Unlike ``float``, it rejects "1_000" and the digits of other scripts.
    """
    if not _NUMBER.fullmatch(text.strip(" \t")):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class LoadRegime:
    """The way in which queries are offered.

    Attributes:
        kind: "closed" (a fixed number of outstanding queries), "saturated" (every worker has a
            backlog, as in the paper), "saturated:mix" (the same backlog; the throughput is the
            rate of the workload's mix, limited by its worst served part) or "open" (fixed
            arrivals).
        outstanding_per_worker: queries in flight per worker (closed), or backlog (saturated).
        offered_mq_per_s: arrival rate in million queries per second (open only).
    """

    kind: Literal["closed", "saturated", "saturated:mix", "open"] = "closed"
    outstanding_per_worker: int = 32
    offered_mq_per_s: float = 0.0

    @classmethod
    def parse(cls, text: str) -> LoadRegime:
        """Parses a load; UnknownNameError for another text.

        "closed", "closed:<queries in flight per worker>", "saturated", "saturated:mix" or
        "open:<Mq/s>".
        """
        if text == "closed":
            return cls("closed")
        count = text.removeprefix("closed:")
        whole = count.isascii() and count.isdigit() and len(count) < 10
        if count != text and whole and 0 < int(count) <= MAX_OUTSTANDING:
            return cls("closed", outstanding_per_worker=int(count))
        if text in ("saturated", "saturated:mix"):
            return cls("saturated:mix" if text == "saturated:mix" else "saturated")
        if text.startswith("open:"):
            rate = plain_number(text.removeprefix("open:"))
            if rate is not None and rate > 0:
                return cls("open", offered_mq_per_s=rate)
        raise UnknownNameError(
            "load",
            text,
            (
                "closed",
                "closed:<queries in flight per worker>",
                "saturated",
                "saturated:mix",
                "open:<million queries per second>",
            ),
        )

    def __str__(self) -> str:
        if self.kind == "open":
            return f"open:{self.offered_mq_per_s:g}"
        if self.kind == "closed" and self != LoadRegime("closed"):
            return f"closed:{self.outstanding_per_worker}"
        return self.kind


#: The families of co-tenants, each with the kind of its targets, in an order that never changes:
#: datasets store positions. A link has the number from-socket * sockets + to-socket.
CO_TENANT_FAMILIES: Mapping[str, str] = {
    "busy_core": "core",  # takes the core's time
    "busy_sibling": "core",  # takes the time of the core's SMT sibling
    "cache_thrash": "last-level domain",  # streams its node's read bandwidth through its cache
    "memory_stream": "node",  # takes the node's read bandwidth
    "link_stream": "link",  # takes the link's bandwidth
}


@dataclass(frozen=True)
class CoTenant:
    """A co-tenant of the machine.

    Attributes:
        family: a key of CO_TENANT_FAMILIES.
        target: number of its core, last-level domain, node or link.
        strength: share that it takes of its family's resource, in [0, 1).
    """

    family: str
    target: int
    strength: float

    def __post_init__(self) -> None:
        if self.family not in CO_TENANT_FAMILIES:
            raise UnknownNameError("co-tenant family", self.family, CO_TENANT_FAMILIES)
        if not 0 <= self.strength < 1:
            raise DescriptionError(
                f"co-tenant {self.family!r}: strength = {self.strength!r}: must lie in [0, 1)"
            )


@dataclass(frozen=True)
class Instance:
    """The hidden state of an episode: its hot keys and co-tenants.

    Attributes:
        workload_seed: seed of the workload instance; 64-bit, non-negative.
        co_tenants: a policy sees them only through the counters.
    """

    workload_seed: int = 0
    co_tenants: tuple[CoTenant, ...] = ()


#: Facts of a snapshot that lead to what policies must find out: the seed of the noise, co-tenants.
HIDDEN = ("seed", "co_tenant_cpus", "co_tenant_gb_per_s")


@dataclass(frozen=True)
class HardwareSnapshot:
    """The measurement of a schedule by a backend.

    Attributes:
        throughput: total, in million queries per second (Mq/s).
        slice_throughput: (slices,) float64, Mq/s of each slice.
        slice_counters: (slices, H) float64, million counts per second of each COUNTERS entry;
            0 where the counter is not available. On hardware, a slice that an available counter
            never observed has the mean per query of the others.
        counters_available: (H,) bool.
        running_ratio: (H,) float64, share of the time that the counter was counting
            (multiplexing); 0 where not available.
        offcore: (K,) float64, in the order of ``offcore_names``, GB/s.
        offcore_names: e.g. "node0_read_gb_per_s", "link0to1_gb_per_s".
        offcore_available: (K,) bool.
        latency_p50_us: median response time, microseconds. On hardware, the response times of an
            open load are also those of queries that were not answered when the measurement ended.
        latency_p99_us: 99th percentile of the response time, microseconds.
        load: value of the environment's ``load`` argument.
        provenance: backend, version, seed; on hardware also CPU, kernel, NUMA balancing, ...
        latency_p999_us: 99.9th percentile of the response time, microseconds; NaN where the
            backend has none.
        latency_max_us: longest response time, microseconds, within 1.6 %; likewise.
        extra_counters: (slices,) float64 by name, million counts per second of those of
            EXTRA_COUNTERS that this CPU has.
    """

    throughput: float
    slice_throughput: Float64Array
    slice_counters: Float64Array
    counters_available: BoolArray
    running_ratio: Float64Array
    offcore: Float64Array
    offcore_names: tuple[str, ...]
    offcore_available: BoolArray
    latency_p50_us: float
    latency_p99_us: float
    load: str
    provenance: Mapping[str, Any] = field(default_factory=dict)
    latency_p999_us: float = math.nan
    latency_max_us: float = math.nan
    extra_counters: Mapping[str, Float64Array] = field(default_factory=dict)

    def limited_to(self, kind: str) -> HardwareSnapshot:
        """The snapshot with only some counters; the others become unavailable.

        Args:
            kind: of READABLE. "software": those of the runtime and the kernel, and no off-core
                value, as in a virtual machine without a performance monitoring unit. "amd" and
                "arm": also those for which ``counters.toml`` has codes of the maker's processors.
        """
        if kind == "all":
            return self
        kept = readable_counters(kind)
        limited = replace(
            self,
            slice_counters=self.slice_counters * kept,
            counters_available=self.counters_available & kept,
            running_ratio=self.running_ratio * kept,
        )
        if kind != "software":
            return limited
        return replace(
            limited,
            offcore=np.zeros_like(self.offcore),
            offcore_available=np.zeros_like(self.offcore_available),
            extra_counters={},
        )

    def for_policies(self) -> HardwareSnapshot:
        """A copy, down to the arrays, without what its provenance has of HIDDEN."""
        shown = {key: value for key, value in self.provenance.items() if key not in HIDDEN}
        return copy.deepcopy(replace(self, provenance=shown))

    def counter(self, name: str) -> Float64Array:
        """The (slices,) column of one counter, million counts per second."""
        if name in self.extra_counters:
            return self.extra_counters[name]
        if name not in COUNTER_INDEX:
            raise UnknownNameError("counter", name, COUNTER_NAMES)
        return self.slice_counters[:, COUNTER_INDEX[name]]
