"""Cores, nodes, domains and roles of an imported server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmoss_env.machines.importing.server_facts import ServerFacts, number
from pmoss_env.types import Int32Array

#: Least physical cores of a node with a router and a sweeper.
MIN_CORES_FOR_ROLES = 4


@dataclass(frozen=True, eq=False)
class Layout:
    """Cores in the order of a machine description: node by node.

    Within a node, the first threads of all physical cores precede their siblings.

    Attributes:
        node: (C,) node of each core.
        socket_of_node: (N,) numbered from 0.
        llc: (C,) last-level domain, numbered from 0.
        physical: (C,) physical core, numbered from 0.
        clusters: number of nodes that share a last-level cache. Sub-NUMA clusters split it: then
            ``llc`` has a domain for each of them.
        hops: (S, S) number of links between sockets.
    """

    node: Int32Array
    socket_of_node: Int32Array
    llc: Int32Array
    physical: Int32Array
    clusters: int
    hops: Int32Array

    @property
    def sockets(self) -> int:
        """Number of sockets."""
        return int(self.socket_of_node.max()) + 1

    @property
    def hops_of_nodes(self) -> Int32Array:
        """(N, N) links between the sockets of two nodes."""
        return self.hops[self.socket_of_node[:, None], self.socket_of_node[None, :]]

    @property
    def cores_per_node(self) -> list[int]:
        """(N,) hardware threads of each node."""
        return [int(n) for n in np.bincount(self.node, minlength=self.socket_of_node.size)]

    @property
    def physical_per_node(self) -> list[int]:
        """(N,) physical cores of each node."""
        return [
            int(np.unique(self.physical[self.node == n]).size)
            for n in range(self.socket_of_node.size)
        ]

    def topology(self) -> dict[str, Any]:
        """The ``[topology]`` table. One row of tiles per node; a single node is about square."""
        per_node = self.cores_per_node
        rows, cols = sum(n > 0 for n in per_node), max(per_node)
        if rows == 1 and cols > 4:
            cols = math.ceil(math.sqrt(cols))
            rows = math.ceil(sum(per_node) / cols)
        table: dict[str, Any] = {
            "socket_of_node": self.socket_of_node.tolist(),
            "cores_per_node": per_node,
            "llc_of_core": self.llc.tolist(),
        }
        if 0 in per_node:
            table["memory_only"] = [n for n, cores in enumerate(per_node) if cores == 0]
        if np.unique(self.physical).size < self.physical.size:
            table["physical_of_core"] = self.physical.tolist()
        return table | {"grid": [rows, cols]}

    def roles(self) -> dict[str, list[list[int]]]:
        """The ``[roles]`` table.

        On a node with at least four physical cores the first is a router, the second a sweeper, and
        the others are workers. On a smaller node all are workers, which share their cores with the
        router and the sweeper. Siblings stay idle, as in most published runs.
        """
        per_node = [n for n in self.physical_per_node if n > 0]
        spare = [(2 if n >= MIN_CORES_FOR_ROLES else 0, n) for n in per_node]
        roles = {"worker": [list(range(first, n)) for first, n in spare]}
        if any(first for first, _ in spare):
            roles["router"] = [[0] if first else [] for first, _ in spare]
            roles["sweeper"] = [[1] if first else [] for first, _ in spare]
        return roles


def lay_out(server: ServerFacts, *, split_by_node: bool) -> Layout:
    """The layout of an imported server.

    Args:
        split_by_node: whether a last-level cache that spans nodes is one domain per node.
    """
    threads: dict[int, int] = {}
    rank = []
    for cpu in server.cpus:
        rank.append(threads.setdefault(cpu.physical, 0))
        threads[cpu.physical] += 1
    order = sorted(
        range(len(server.cpus)), key=lambda i: (server.cpus[i].node, rank[i], server.cpus[i].id)
    )
    cpus = [server.cpus[i] for i in order]
    nodes_of_llc: dict[int, set[int]] = {}
    for cpu in cpus:
        nodes_of_llc.setdefault(cpu.llc, set()).add(cpu.node)
    clusters = max(map(len, nodes_of_llc.values())) if split_by_node else 1
    llc = number((cpu.llc, cpu.node if clusters > 1 else 0) for cpu in cpus)
    socket_of_node = np.array(_sockets(server), dtype=np.int32)
    return Layout(
        node=np.array([cpu.node for cpu in cpus], dtype=np.int32),
        socket_of_node=socket_of_node,
        llc=np.array(llc, dtype=np.int32),
        physical=np.array(number(cpu.physical for cpu in cpus), dtype=np.int32),
        clusters=clusters,
        hops=_hops(server, socket_of_node),
    )


def _sockets(server: ServerFacts) -> list[int]:
    """The socket of each node: that of its first CPU, or of the nearest node with CPUs."""
    with_cpus: dict[int, int] = {}
    for cpu in server.cpus:
        with_cpus.setdefault(cpu.node, cpu.socket)
    sockets = []
    for node in range(len(server.nodes)):
        if node in with_cpus:
            sockets.append(with_cpus[node])
        elif node in server.socket_of_bare_node:
            sockets.append(server.socket_of_bare_node[node])
        else:
            slit = server.slit
            sockets.append(with_cpus[min(with_cpus, key=lambda n: slit[node][n] if slit else n)])
    return number(sockets)


def slit_matrix(server: ServerFacts) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """(N, N) valid distances between nodes: every other node is farther away; else None.

    The firmware's 255 means unreachable, which no node of a running server is.
    """
    if server.slit is None or len(server.nodes) == 1:
        return None
    slit = np.array(server.slit)
    others = slit[~np.eye(len(slit), dtype=np.bool_)]
    return slit if slit.diagonal().max() < others.min() and others.max() < 255 else None


def _hops(server: ServerFacts, socket_of_node: Int32Array) -> Int32Array:
    """(S, S) links between sockets: the closest are joined, if that gives at most two hops.

    Otherwise, or without valid distances, all sockets are joined.
    """
    sockets = int(socket_of_node.max()) + 1
    apart = ~np.eye(sockets, dtype=np.bool_)
    all_joined = apart.astype(np.int32)
    slit = slit_matrix(server)
    if sockets < 3 or slit is None:
        return all_joined
    closest = np.array(
        [
            [slit[np.ix_(socket_of_node == a, socket_of_node == b)].min() for b in range(sockets)]
            for a in range(sockets)
        ]
    )
    closest = np.minimum(closest, closest.T)
    joined = apart & (closest == closest[apart].min())
    in_two = joined | (joined.astype(np.int32) @ joined.astype(np.int32) > 0)
    if not in_two[apart].all():
        return all_joined
    return np.where(joined, 1, np.where(apart, 2, 0)).astype(np.int32)
