"""The words of the product: schedules, hardware snapshots and the counter vocabulary.

Plain frozen dataclasses over NumPy arrays. Every number has its unit in its name or in the
vocabulary below.
"""

from __future__ import annotations

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
    """A copy of ``values`` as (n,) int32; ScheduleError for anything that this would change.

    Args:
        name: what the values are, for the error.
        values: integers in any form NumPy takes.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ScheduleError(f"{name} has shape {array.shape}: must be one-dimensional")
    if array.size == 0:
        return np.zeros(0, dtype=np.int32)
    if array.dtype == np.int32:
        return array.astype(np.int32)  # none is too great
    if not np.issubdtype(array.dtype, np.integer):
        raise ScheduleError(f"{name} are of type {array.dtype}: must be whole numbers")
    limits = np.iinfo(np.int32)
    outside = (array < limits.min) | (array > limits.max)
    if outside.any():
        raise ScheduleError(f"{name}: {array[outside][0]} does not fit 32 bits")
    return array.astype(np.int32)


#: The canonical counters, H of them, from pmoss_env/counters.toml. A host that lacks an event marks
#: it unavailable. The position in a vector never changes: new counters come last.
COUNTERS: tuple[Counter, ...] = read_table().counters
COUNTER_NAMES: tuple[str, ...] = tuple(counter.name for counter in COUNTERS)
COUNTER_INDEX: Mapping[str, int] = {name: i for i, name in enumerate(COUNTER_NAMES)}


#: Who runs a query of a slice: its core (SN:T), a random worker of its node (SN:N), any worker.
Routing = Literal["core", "node", "any"]
#: Which node holds a page: its slice's, all nodes in turn (OS:I), or that of first touch (OS:D).
DataPlacement = Literal["slice", "interleaved", "first_touch"]


@dataclass(frozen=True)
class Schedule:
    """Which core serves each slice, and which node's memory holds it.

    Attributes:
        cores: (slices,) int32, a worker core of the machine for each slice; not used unless the
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
        if self.routing not in get_args(Routing):
            raise UnknownNameError("routing", self.routing, get_args(Routing))
        if self.data not in get_args(DataPlacement):
            raise UnknownNameError("data placement", self.data, get_args(DataPlacement))
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


#: Queries in flight per worker, far more than any server has.
MOST_OUTSTANDING = 1_000_000
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def plain_number(text: str) -> float | None:
    """The finite number that a text writes in the digits 0 to 9; None if it is none.

    Python itself also takes "1_000" and the digits of other scripts.
    """
    if not _NUMBER.fullmatch(text.strip(" \t")):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class LoadRegime:
    """How load is offered.

    Attributes:
        kind: "closed" (a fixed number of outstanding queries), "saturated" (every worker always
            has a backlog: the paper's), "saturated:mix" (the same backlog; the throughput is the
            rate at which the workload's mix is served, that of its worst served part) or "open"
            (fixed arrivals).
        outstanding_per_worker: queries in flight per worker (closed), or backlog (saturated).
        offered_mq_per_s: arrival rate in million queries per second (open only).
    """

    kind: Literal["closed", "saturated", "saturated:mix", "open"] = "closed"
    outstanding_per_worker: int = 32
    offered_mq_per_s: float = 0.0

    @classmethod
    def parse(cls, text: str) -> LoadRegime:
        """Reads a text; raises UnknownNameError if it is none of these.

        "closed", "closed:<queries in flight per worker>", "saturated", "saturated:mix" or
        "open:<Mq/s>".
        """
        if text == "closed":
            return cls("closed")
        count = text.removeprefix("closed:")
        whole = count.isascii() and count.isdigit() and len(count) < 10
        if count != text and whole and 0 < int(count) <= MOST_OUTSTANDING:
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


@dataclass(frozen=True)
class CoTenantFamily:
    """One kind of co-tenant.

    Attributes:
        name: canonical name.
        target: what it sits on; a link is numbered from-socket * sockets + to-socket.
        takes: what its strength is a share of.
    """

    name: str
    target: Literal["core", "last-level domain", "node", "link"]
    takes: str


#: The co-tenants, in an order that never changes: datasets store positions.
CO_TENANT_FAMILIES: Mapping[str, CoTenantFamily] = {
    family.name: family
    for family in (
        CoTenantFamily("busy_core", "core", "the core's time"),
        CoTenantFamily("busy_sibling", "core", "the time of the core's SMT sibling"),
        CoTenantFamily(
            "cache_thrash",
            "last-level domain",
            "the read bandwidth of the domain's node, streamed through its cache",
        ),
        CoTenantFamily("memory_stream", "node", "the node's read bandwidth"),
        CoTenantFamily("link_stream", "link", "the link's bandwidth"),
    )
}


@dataclass(frozen=True)
class CoTenant:
    """A co-tenant of the machine: the unit of the ``interference`` families.

    Attributes:
        family: a key of CO_TENANT_FAMILIES.
        target: the number of the core, last-level domain, node or link that it sits on.
        strength: share that it takes of what its family says, in [0, 1).
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
    """What an episode does not choose: which keys are hot, and which co-tenants there are.

    Attributes:
        workload_seed: names the workload instance; 64-bit, non-negative.
        co_tenants: the co-tenants, visible only through what the counters then show.
    """

    workload_seed: int = 0
    co_tenants: tuple[CoTenant, ...] = ()


@dataclass(frozen=True)
class HardwareSnapshot:
    """What a backend measured under one schedule.

    Attributes:
        throughput: total, in million queries per second (Mq/s).
        slice_throughput: (slices,) float64, Mq/s of each slice.
        slice_counters: (slices, H) float64, million counts per second of each COUNTERS entry;
            0 where the counter is not available. On hardware, a slice that an available counter
            never saw has the mean per query of the others.
        counters_available: (H,) bool.
        running_ratio: (H,) float64, share of the time that the counter really counted
            (multiplexing), 1 when always, 0 where not available.
        offcore: (K,) float64, in the order of ``offcore_names``, GB/s.
        offcore_names: e.g. "node0_read_gb_per_s", "link0to1_gb_per_s".
        offcore_available: (K,) bool.
        latency_p50_us: median response time, microseconds.
        latency_p99_us: 99th percentile of the response time, microseconds.
        load: the load regime, as written in the environment's ``load`` argument.
        provenance: backend, version, seed; on hardware also CPU, kernel, NUMA balancing, ...
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

    def without_pmu(self) -> HardwareSnapshot:
        """The same as a virtual machine sees it that has no performance monitoring unit.

        What our runtime and the kernel count is left; counters of the hardware, of memory channels
        and of links are not available.
        """
        has = np.array([counter.source != "hardware" for counter in COUNTERS])
        return replace(
            self,
            slice_counters=self.slice_counters * has,
            counters_available=self.counters_available & has,
            running_ratio=self.running_ratio * has,
            offcore=np.zeros_like(self.offcore),
            offcore_available=np.zeros_like(self.offcore_available),
        )

    def counter(self, name: str) -> Float64Array:
        """The (slices,) column of one counter, million counts per second."""
        if name not in COUNTER_INDEX:
            raise UnknownNameError("counter", name, COUNTER_NAMES)
        return self.slice_counters[:, COUNTER_INDEX[name]]
