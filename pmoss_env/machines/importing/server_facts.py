"""The facts that an importer read about a server, from any source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class HardwareThread:
    """A hardware thread of a server.

    Attributes:
        node: position in ``ServerFacts.nodes``.
        socket: any number of the socket.
        physical: number of the physical core, equal for SMT siblings.
        llc: any number of the last-level cache domain.
    """

    id: int
    node: int
    socket: int
    physical: int
    llc: int


@dataclass(frozen=True)
class Fact:
    """A value that was read.

    Attributes:
        confidence: "high" or "medium".
    """

    value: float
    source: str
    confidence: str


@dataclass(frozen=True)
class ServerFacts:
    """A server as the operating system or hwloc describes it.

    Attributes:
        place: file or folder that was read, for messages.
        origin: kind of source: "sysfs" or "lstopo XML".
        model: name of the processor, or "unknown processor".
        vendor: vendor as the processor reports it, or "".
        cpus: the hardware threads, ascending by id.
        nodes: the operating system's number of each node.
        memory_bytes: of each node, 0 if unknown.
        slit: (N, N) distances between nodes from the firmware, or None.
        facts: values by the name of their parameter.
        socket_of_bare_node: known sockets of nodes without CPUs, by position of the node.
    """

    place: str
    origin: str
    model: str
    vendor: str
    cpus: tuple[HardwareThread, ...]
    nodes: tuple[int, ...]
    memory_bytes: tuple[int, ...]
    slit: tuple[tuple[float, ...], ...] | None
    facts: Mapping[str, Fact]
    socket_of_bare_node: Mapping[int, int] = field(default_factory=dict)


def number(keys: Iterable[Hashable]) -> list[int]:
    """Numbers the keys from 0, in the order of their first appearance."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def most_common(values: Iterable[float], source: str) -> Fact | None:
    """The most common positive value of the CPUs; None without a positive value."""
    counts = Counter(value for value in values if value > 0)
    if not counts:
        return None
    value, count = counts.most_common(1)[0]
    if count == counts.total():
        return Fact(value, source, "high")
    return Fact(value, f"{source}: so {count} of {counts.total()} CPUs", "medium")


def clock_in_name(model: str, origin: str) -> Fact | None:
    """The frequency at the end of a processor's name, "... @ 2.70GHz"."""
    name, separator, text = model.rpartition("@")
    text = text.strip().lower()
    if not separator or not text.endswith("ghz"):
        return None
    try:
        value = float(text.removesuffix("ghz"))
    except ValueError:
        return None
    if not 0.1 < value < 10:
        return None
    return Fact(value, f"{origin}: in the name of the processor, {name.strip()}", "medium")
