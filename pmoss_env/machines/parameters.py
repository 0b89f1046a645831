"""Performance parameters of a machine: names, units and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pmoss_env.checks import check_keys, is_number
from pmoss_env.errors import DescriptionError

CONFIDENCES = ("high", "medium", "low")

Value = float | tuple[float, ...] | tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Parameter:
    """A measured or published value of a machine.

    Attributes:
        value: a number; a list or a matrix where the parameter allows it.
        confidence: "high", "medium" or "low".
    """

    value: Value
    unit: str
    source: str
    confidence: str


@dataclass(frozen=True)
class Kind:
    """The unit and the valid values of a parameter.

    Attributes:
        forms: valid forms: "number", "list" (one per node) and "matrix".
    """

    unit: str
    minimum: float = 1e-9
    maximum: float = 1e9
    whole: bool = False
    forms: tuple[str, ...] = ("number",)


_NS = Kind("ns")
_NOT_NEGATIVE_NS = Kind("ns", minimum=0.0)
_COEFFICIENT = Kind("1", minimum=0.0)
_EXPONENT = Kind("1", maximum=50.0)
_FLAG = Kind("flag", minimum=0.0, maximum=1.0, whole=True)
_WAYS = Kind("ways", minimum=1.0, whole=True)
_NODE_BANDWIDTH = Kind("GB/s", forms=("number", "list"))

#: All parameters; distances.py says which of them a topology needs. Latencies are idle latencies;
#: "beyond L1" is the added wait of an access that misses the first level.
PARAMETERS: Mapping[str, Kind] = {
    "clock_ghz": Kind("GHz"),
    "instructions_per_cycle": Kind("instructions/cycle"),
    "branch_miss_cycles": Kind("cycles", minimum=0.0),
    "mlp_dependent": Kind("misses"),  # overlapped where each waits for the one before
    "mlp_streaming": Kind("misses"),
    "smt_share": Kind("share", maximum=1.0),  # speed while the sibling is busy, of that alone
    "l2_kib": Kind("KiB"),  # per physical core
    "l2_ways": _WAYS,
    "l2_ns": _NOT_NEGATIVE_NS,  # beyond L1
    "llc_kib": Kind("KiB"),  # per last-level domain
    "llc_ways": _WAYS,
    "llc_ns": _NS,
    "llc_inclusive": _FLAG,  # 1: holds a copy of all that the L2s hold; 0: takes what they evict
    "llc_at_home_cluster": _FLAG,  # 1: sub-NUMA clusters cache the lines of their own memory
    # A line that another core modified: in the reader's last-level domain, ...
    "modified_same_llc_ns": _NS,
    "modified_same_socket_ns": _NS,
    "modified_other_socket_ns": _NS,
    "modified_two_hops_ns": _NS,
    "modified_ns": Kind("ns", forms=("matrix",)),  # ... or [reader's domain][owner's domain]
    "modified_home_reader_ns": _NOT_NEGATIVE_NS,  # added where its home is the reader's socket
    "dram_local_ns": _NS,
    "dram_same_socket_ns": _NS,
    "dram_other_socket_ns": _NS,
    "dram_two_hops_ns": _NS,
    "dram_ns": Kind("ns", forms=("matrix",)),  # [core's node][memory's node], instead of classes
    "dram_gb_per_s": _NODE_BANDWIDTH,  # per node, reading
    "dram_write_gb_per_s": _NODE_BANDWIDTH,  # per node, writing
    "node_memory_gib": Kind("GiB", minimum=0.0, forms=("number", "list")),  # that a node holds
    "curve_a": _COEFFICIENT,  # of memory: loaded / idle latency = 1 + a u + b u^c / (1.02 - u)
    "curve_b": _COEFFICIENT,
    "curve_c": _EXPONENT,
    # Per direction of a link; one number where every two sockets are joined, else a matrix
    # [from socket][to socket] with 0 where no link is.
    "link_gb_per_s": Kind("GB/s", minimum=0.0, forms=("number", "matrix")),
    "link_curve_a": _COEFFICIENT,
    "link_curve_b": _COEFFICIENT,
    "link_curve_c": _EXPONENT,
    "dtlb_pages": Kind("pages", minimum=0.0, whole=True),
    "tlb_pages": Kind("pages", minimum=1.0, whole=True),
    "tlb_ns": _NOT_NEGATIVE_NS,
    "page_walk_ns": _NOT_NEGATIVE_NS,
    "page_bytes": Kind("B", minimum=64.0, maximum=2.0**40, whole=True),
    "dispatch_ns": _NOT_NEGATIVE_NS,  # what a router takes to hand out a query
    # What thread scheduling needs to know of a machine with slow memory (nodes without cores).
    "turbo_ghz": Kind("GHz"),  # of a core that only waits
    "page_fault_ns": _NOT_NEGATIVE_NS,  # a minor fault, at the base clock
    "slow_read_ns": _NS,  # a line of a sequential read, from the own socket
    "slow_write_ns": _NS,  # a line written past the caches, from the own socket
    "slow_granule_bytes": Kind("B", minimum=64.0, maximum=2.0**40, whole=True),
    # Of another socket's slow memory / of the own: latencies and bandwidths.
    "slow_remote_read_ratio": Kind("1", minimum=1.0),
    "slow_remote_write_ratio": Kind("1", minimum=1.0),
    "slow_remote_read_share": Kind("share", maximum=1.0),
    "slow_remote_write_share": Kind("share", maximum=1.0),
    # Remote writers at once without a slowdown. What each further writer adds to the time of a
    # remote write, in times of a local one. What it adds per share of reads among them.
    "slow_remote_writers": Kind("threads", minimum=0.0),
    "slow_remote_writer_cost": _COEFFICIENT,
    "slow_remote_mixed_cost": _COEFFICIENT,
}


def read_parameters(
    entries: Mapping[str, Any],
    table: str = "parameters",
    kinds: Mapping[str, Kind] = PARAMETERS,
) -> dict[str, Parameter]:
    """Reads the parameters of a table of a machine file.

    Raises:
        DescriptionError: names the key, the value and the valid values.
    """
    check_keys(f"{table}.", entries, kinds)
    result = {}
    for name, entry in entries.items():
        key = f"{table}.{name}"
        kind = kinds[name]
        if not isinstance(entry, dict) or set(entry) != {"value", "unit", "source", "confidence"}:
            raise DescriptionError(f"{key}: must have exactly value, unit, source and confidence")
        if entry["unit"] != kind.unit:
            raise DescriptionError(f"{key}.unit = {entry['unit']!r}: must be {kind.unit!r}")
        if not isinstance(entry["source"], str) or not entry["source"].strip():
            raise DescriptionError(f"{key}.source = {entry['source']!r}: must say where it is from")
        if entry["confidence"] not in CONFIDENCES:
            raise DescriptionError(
                f"{key}.confidence = {entry['confidence']!r}: must be one of {CONFIDENCES}"
            )
        value = _value(f"{key}.value", entry["value"], kind)
        result[name] = Parameter(value, kind.unit, entry["source"], entry["confidence"])
    return result


def _value(key: str, value: Any, kind: Kind) -> Value:
    form = "number"
    if isinstance(value, list):
        form = "matrix" if value and all(isinstance(row, list) for row in value) else "list"
    if form not in kind.forms:
        raise DescriptionError(f"{key} = {value!r}: must be a {' or a '.join(kind.forms)}")
    if form == "number":
        return _number(key, value, kind)
    if form == "list":
        return tuple(_number(f"{key}[{i}]", v, kind) for i, v in enumerate(value))
    return tuple(
        tuple(_number(f"{key}[{i}][{j}]", v, kind) for j, v in enumerate(row))
        for i, row in enumerate(value)
    )


def _number(key: str, value: Any, kind: Kind) -> float:
    if not is_number(value):
        raise DescriptionError(f"{key} = {value!r}: must be a finite number")
    if kind.whole and value != int(value):
        raise DescriptionError(f"{key} = {value!r}: must be a whole number")
    if value < kind.minimum:
        valid = "positive" if kind.minimum == 1e-9 else f"at least {kind.minimum:g}"
        raise DescriptionError(f"{key} = {value!r}: must be {valid}")
    if value > kind.maximum:
        raise DescriptionError(f"{key} = {value!r}: must be at most {kind.maximum:g}")
    return float(value)
