"""What an importer found out about a server, whatever it read it from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FoundCpu:
    """One hardware thread.

    Attributes:
        id: the operating system's number.
        node: position in ``Found.nodes``.
        socket: number of the socket, any.
        physical: number of the physical core, the same for SMT siblings.
        llc: number of the last-level cache domain, any.
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
        value: in the unit of the parameter it becomes.
        source: where it was read.
        confidence: "high" or "medium".
    """

    value: float
    source: str
    confidence: str


@dataclass(frozen=True)
class Found:
    """A server as the operating system or hwloc sees it.

    Attributes:
        place: the file or folder that was read, for messages.
        origin: how it was read, for sources: "sysfs" or "lstopo XML".
        model: name of the processor, or "unknown processor".
        vendor: what the processor calls its maker, or "".
        cpus: the hardware threads, ascending by id.
        nodes: the operating system's number of each node.
        memory_bytes: of each node, 0 if unknown.
        slit: (N, N) distances between nodes as the firmware reports them; None if it does not.
        facts: what was read, by the name of the parameter it becomes.
        socket_of_bare_node: sockets of nodes without CPUs, by position, where they are known.
    """

    place: str
    origin: str
    model: str
    vendor: str
    cpus: tuple[FoundCpu, ...]
    nodes: tuple[int, ...]
    memory_bytes: tuple[int, ...]
    slit: tuple[tuple[float, ...], ...] | None
    facts: Mapping[str, Fact]
    socket_of_bare_node: Mapping[int, int] = field(default_factory=dict)


def number(keys: Iterable[Hashable]) -> list[int]:
    """Keys as numbers from 0, in the order in which they first appear."""
    seen: dict[Hashable, int] = {}
    return [seen.setdefault(key, len(seen)) for key in keys]


def most_common(values: Iterable[float], source: str) -> Fact | None:
    """The value that most CPUs have; None if none has one above 0."""
    counts = Counter(value for value in values if value > 0)
    if not counts:
        return None
    value, count = counts.most_common(1)[0]
    if count == counts.total():
        return Fact(value, source, "high")
    return Fact(value, f"{source}: so {count} of {counts.total()} CPUs", "medium")


def clock_in_name(model: str, origin: str) -> Fact | None:
    """The frequency that a processor's name ends in, "... @ 2.70GHz"."""
    name, at, text = model.rpartition("@")
    text = text.strip().lower()
    if not at or not text.endswith("ghz"):
        return None
    try:
        value = float(text.removesuffix("ghz"))
    except ValueError:
        return None
    if not 0.1 < value < 10:
        return None
    return Fact(value, f"{origin}: in the name of the processor, {name.strip()}", "medium")
