"""What moving a slice costs while its index runs, in the analytic model.

A moved slice changes its core at once. Its data follow: one copy after the other. Until a slice's
data have arrived it is served from afar. A copy is traffic of the source's memory, the target's
memory and the links between. Where a slice goes, none of its lines are cached at first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_forms import record_shares
from pmoss_env.envs.continual.drift import check_range
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, Int32Array
from pmoss_env.workloads import Workload

_LINE_BYTES = 64
#: However busy a memory or link is, a copy gets this share of it.
_LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Migration:
    """What moves with a slice, and how fast at most.

    Attributes:
        record_bytes: of one record with all that moves with it; 1,000 as in YCSB.
        most_gb_per_s: a limit that the copying thread keeps; 0: none.
    """

    record_bytes: float = 1000.0
    most_gb_per_s: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.record_bytes <= 2**30:
            raise DescriptionError(
                f"record_bytes = {self.record_bytes!r}: must lie between 1 and {2**30}"
            )
        check_range("most_gb_per_s", (0.0, self.most_gb_per_s))

    def slice_bytes(self, workload: Workload, slices: int) -> Float64Array:
        """(slices,) float64, bytes that move with each slice."""
        shares = np.array(record_shares(workload, slices))
        return shares * (workload.records * self.record_bytes)


@dataclass(frozen=True)
class Busy:
    """What co-tenants take of memories and links, in GB/s.

    Attributes:
        nodes: of each node.
        links: of each link, numbered from-socket * sockets + to-socket.
    """

    nodes: Sequence[float]
    links: Sequence[float]


@dataclass(frozen=True)
class Traffic:
    """What a copy takes, in GB/s.

    Attributes:
        rate: bytes copied.
        nodes: of the memory bandwidth of each node, counted as reading.
        links: of the links that it passes.
    """

    rate: float
    nodes: Mapping[int, float]
    links: Mapping[int, float]


class Copier:
    """One thread of the target's node that copies lines.

    Args:
        machine: gives the topology.
        native: the machine as it really is.
        migration: the limit.
    """

    def __init__(
        self, machine: Machine, native: _native.MachineModel, migration: Migration
    ) -> None:
        self._limit = migration.most_gb_per_s or float("inf")
        self._socket = machine.socket_of_node.tolist()
        self._sockets = machine.sockets
        self._nodes = machine.nodes
        self._latency = list(native.dram_ns)
        self._read = list(native.dram_gb_per_s)
        self._write = list(native.dram_write_gb_per_s)
        self._link = list(native.link_gb_per_s)
        self._next = list(native.next_socket)
        self._in_flight = _LINE_BYTES * native.mlp_streaming

    def route(self, source: int, target: int) -> list[int]:
        """Numbers of the links that a copy between two nodes passes."""
        at, end = self._socket[source], self._socket[target]
        links = []
        while at != end:
            after = self._next[at * self._sockets + end]
            links.append(at * self._sockets + after)
            at = after
        return links

    def traffic(self, source: int, target: int, busy: Busy) -> Traffic:
        """How fast a copy is beside co-tenants, and what it takes.

        One thread has as many lines in flight as the processor fetches ahead. Each takes the
        latency from the source, longer where co-tenants use its memory. Memories and links give no
        more than co-tenants leave. The queries themselves are not looked at.
        """
        memory = _left(busy.nodes, self._read, source)
        rate = self._in_flight / self._latency[target * self._nodes + source] * memory
        rate = min(rate, self._read[source] * memory)
        rate = min(rate, self._write[target] * _left(busy.nodes, self._read, target))
        links = self.route(source, target)
        for link in links:
            rate = min(rate, self._link[link] * _left(busy.links, self._link, link))
        rate = min(rate, self._limit)
        writing = rate * self._read[target] / self._write[target]
        return Traffic(rate, {source: rate, target: writing}, dict.fromkeys(links, rate))


def _left(taken: Sequence[float], whole: Sequence[float], which: int) -> float:
    """The share of a memory or link that co-tenants leave."""
    return max(_LEAST_SHARE, 1.0 - taken[which] / whole[which])


class ColdLines:
    """What it costs that a moved slice finds none of its lines in the caches of its new place."""

    def __init__(self, machine: Machine, native: _native.MachineModel) -> None:
        self._machine = machine
        self._l2, self._llc = native.l2_lines, native.llc_lines
        self._overlap = native.mlp_dependent
        self._latency = np.asarray(native.dram_ns).reshape(machine.nodes, machine.nodes)

    def seconds(
        self,
        slices: Int32Array,
        shares: Float64Array,
        cores: Int32Array,
        nodes: Int32Array,
        lines: Float64Array,
    ) -> Float64Array:
        """(n,) time in which cores fetch the lines of slices again that their caches will hold.

        A slice holds of a cache what it has of the queries that go through it.

        Args:
            slices: (n,) that have moved.
            shares: (all slices,) of the queries that go to each.
            cores: (all slices,) that serve them now.
            nodes: (n,) that the lines come from.
            lines: (n,) that the slices have.
        """
        domain, core = self._machine.llc_of_core[cores], cores[slices]
        through_core = np.bincount(cores, shares).astype(np.float64)[core]
        through_domain = np.bincount(domain, shares).astype(np.float64)[domain[slices]]
        mine = shares[slices]
        held = self._l2 * _part(mine, through_core) + self._llc * _part(mine, through_domain)
        wait = self._latency[self._machine.node_of_core[core], nodes] / self._overlap
        seconds: Float64Array = np.minimum(held, lines) * wait * 1e-9
        return seconds


def _part(mine: Float64Array, of: Float64Array) -> Float64Array:
    return np.divide(mine, of, out=np.zeros_like(mine), where=of > 0)
