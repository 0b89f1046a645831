"""The ``[topology]`` and ``[roles]`` tables of a machine file: cores, nodes and caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmoss_env.checks import check_keys, is_whole
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Int32Array

#: More than any server has; matrices grow with the square.
MAX_CORES, MAX_NODES = 8192, 1024
ROLES = ("worker", "router", "sweeper")
_KEYS = {
    "sockets",
    "nodes_per_socket",
    "socket_of_node",
    "cores_per_node",
    "memory_only",
    "cores_per_llc",
    "llc_of_core",
    "threads_per_core",
    "physical_of_core",
    "grid",
    "memory_channels_per_node",
}


@dataclass(frozen=True, eq=False)
class Topology:
    """C cores on N nodes, drawn as a grid of r x c tiles; cores are numbered node by node.

    Attributes:
        socket_of_node: (N,) int32; a node may have memory and no cores.
        node_of_core: (C,) int32.
        llc_of_core: (C,) int32, last-level cache domain.
        physical_of_core: (C,) int32; hardware threads of one physical core have the same number.
        role_of_core: (C,) "worker", "router", "sweeper" or "other".
        memory_channels_per_node: count, 0 if unknown.
    """

    rows: int
    cols: int
    socket_of_node: Int32Array
    node_of_core: Int32Array
    llc_of_core: Int32Array
    physical_of_core: Int32Array
    role_of_core: tuple[str, ...]
    memory_channels_per_node: int = 0


def read_topology(topology: Mapping[str, Any], roles: Mapping[str, Any]) -> Topology:
    """Reads the two tables.

    ``[topology]`` contains

    - the nodes: ``sockets`` and ``nodes_per_socket``, or ``socket_of_node``, one per node;
    - the cores: ``cores_per_node``, one number or one per node; nodes without cores must be listed
      in ``memory_only``;
    - the last-level caches: ``cores_per_llc``, or ``llc_of_core``, one per core;
    - hardware threads, if siblings are listed as cores: ``threads_per_core`` (of the n cores of a
      node, i, i + n / threads, ... are siblings), or ``physical_of_core``, one per core;
    - ``grid``, [rows, columns]: core i is drawn on tile i; and ``memory_channels_per_node``.

    ``[roles]`` contains, by role, the core numbers within each node that has cores, or one list of
    them per such node.

    Raises:
        DescriptionError: names the key, the value and the valid values.
    """
    check_keys("topology.", topology, _KEYS)
    socket_of_node = _sockets(topology)
    nodes = len(socket_of_node)
    per_node = _cores_per_node(topology, nodes)
    node_of_core = np.repeat(np.arange(nodes), per_node)
    cores = int(node_of_core.size)
    rows, cols = _grid(topology, cores)
    llc_of_core = _llcs(topology, cores)
    physical_of_core = _physical(topology, per_node)
    socket = np.asarray(socket_of_node)[node_of_core]
    _same(
        "last-level cache",
        llc_of_core,
        "topology.llc_of_core",
        ("sockets", socket.astype(np.int32)),
    )
    for what, values in (("nodes", node_of_core), ("last-level caches", llc_of_core)):
        _same("physical core", physical_of_core, "topology.physical_of_core", (what, values))
    channels = topology.get("memory_channels_per_node", 0)
    if not is_whole(channels, 0, MAX_CORES):
        raise DescriptionError(
            f"topology.memory_channels_per_node = {channels!r}: must be a whole number, "
            "0 if it is not known"
        )
    return Topology(
        rows=rows,
        cols=cols,
        socket_of_node=np.array(socket_of_node, dtype=np.int32),
        node_of_core=node_of_core.astype(np.int32),
        llc_of_core=llc_of_core,
        physical_of_core=physical_of_core,
        role_of_core=_roles(roles, [n for n in per_node if n > 0]),
        memory_channels_per_node=channels,
    )


def _sockets(topology: Mapping[str, Any]) -> list[int]:
    if "socket_of_node" not in topology:
        sockets = _count(topology, "sockets")
        nodes_per_socket = _count(topology, "nodes_per_socket")
        if sockets * nodes_per_socket > MAX_NODES:
            raise DescriptionError(
                f"topology.sockets = {sockets} of {nodes_per_socket} nodes: must be at most "
                f"{MAX_NODES} nodes in all"
            )
        return [node // nodes_per_socket for node in range(sockets * nodes_per_socket)]
    for key in ("sockets", "nodes_per_socket"):
        if key in topology:
            raise DescriptionError(
                f"topology.{key}: cannot be given beside topology.socket_of_node"
            )
    return _numbering(topology, "socket_of_node", None)


def _cores_per_node(topology: Mapping[str, Any], nodes: int) -> list[int]:
    memory_only = topology.get("memory_only", [])
    if not isinstance(memory_only, list) or not all(
        is_whole(node, 0, MAX_CORES) and node < nodes for node in memory_only
    ):
        raise DescriptionError(
            f"topology.memory_only = {memory_only!r}: must list nodes between 0 and {nodes - 1}"
        )
    value = topology.get("cores_per_node")
    if not isinstance(value, list):
        count = _count(topology, "cores_per_node")
        per_node = [0 if node in memory_only else count for node in range(nodes)]
    else:
        if len(value) != nodes or not all(is_whole(n, 0, MAX_CORES) for n in value):
            raise DescriptionError(
                f"topology.cores_per_node = {value!r}: must be a whole number above 0, or one for "
                f"each of the {nodes} nodes"
            )
        per_node = value
    for node, count in enumerate(per_node):
        if count == 0 and node not in memory_only:
            raise DescriptionError(
                f"topology.cores_per_node: node {node} has no cores: list it in "
                "topology.memory_only if that is meant"
            )
        if count > 0 and node in memory_only:
            raise DescriptionError(
                f"topology.memory_only: node {node} has {count} cores in topology.cores_per_node"
            )
    if sum(per_node) > MAX_CORES:
        raise DescriptionError(
            f"topology.cores_per_node: {sum(per_node)} cores in all: must be at most {MAX_CORES}"
        )
    if sum(per_node) == 0:
        raise DescriptionError("topology.memory_only: leaves no node with cores")
    return per_node


def _grid(topology: Mapping[str, Any], cores: int) -> tuple[int, int]:
    grid = topology.get("grid")
    if not (
        isinstance(grid, list) and len(grid) == 2 and all(is_whole(v, 1, MAX_CORES) for v in grid)
    ):
        raise DescriptionError(f"topology.grid = {grid!r}: must be [rows, columns]")
    if grid[0] * grid[1] > MAX_CORES:
        raise DescriptionError(f"topology.grid = {grid}: must have at most {MAX_CORES} tiles")
    if grid[0] * grid[1] < cores:
        raise DescriptionError(f"topology.grid = {grid}: has fewer tiles than {cores} cores")
    return grid[0], grid[1]


def _llcs(topology: Mapping[str, Any], cores: int) -> Int32Array:
    if "llc_of_core" in topology:
        if "cores_per_llc" in topology:
            raise DescriptionError(
                "topology.cores_per_llc: cannot be given beside topology.llc_of_core"
            )
        return np.array(_numbering(topology, "llc_of_core", cores), dtype=np.int32)
    cores_per_llc = _count(topology, "cores_per_llc")
    if cores % cores_per_llc:
        raise DescriptionError(
            f"topology.cores_per_llc = {cores_per_llc}: must divide the {cores} cores"
        )
    return np.arange(cores, dtype=np.int32) // np.int32(cores_per_llc)


def _physical(topology: Mapping[str, Any], per_node: list[int]) -> Int32Array:
    cores = sum(per_node)
    if "physical_of_core" in topology:
        if "threads_per_core" in topology:
            raise DescriptionError(
                "topology.threads_per_core: cannot be given beside topology.physical_of_core"
            )
        return np.array(_numbering(topology, "physical_of_core", cores), dtype=np.int32)
    if "threads_per_core" not in topology:
        return np.arange(cores, dtype=np.int32)
    threads = _count(topology, "threads_per_core")
    physical: list[int] = []
    first = 0
    for node, count in enumerate(per_node):
        if count % threads:
            raise DescriptionError(
                f"topology.threads_per_core = {threads}: must divide the {count} cores of node "
                f"{node}"
            )
        physical.extend(first + i % (count // threads) for i in range(count))
        first += count // threads
    return np.array(physical, dtype=np.int32)


def _same(what: str, group: Int32Array, key: str, parts: tuple[str, Any]) -> None:
    """Raises an error for a group whose members lie on several nodes, caches or sockets."""
    name, values = parts
    first = np.zeros(int(group.max()) + 1, dtype=np.int64)
    first[group[::-1]] = values[::-1]
    wrong = np.flatnonzero(values != first[group])
    if wrong.size:
        core = int(wrong[0])
        raise DescriptionError(
            f"{key}: {what} {group[core]} spans {name} {first[group[core]]} and {values[core]} "
            f"(core {core}): must lie in one"
        )


def _roles(roles: Mapping[str, Any], per_node: list[int]) -> tuple[str, ...]:
    role_of: list[list[str]] = [["other"] * count for count in per_node]
    for role, given in roles.items():
        if role not in ROLES:
            raise DescriptionError(f"roles.{role}: must be worker, router or sweeper")
        if not isinstance(given, list):
            raise DescriptionError(f"roles.{role} = {given!r}: must be a list of core numbers")
        lists = given if given and isinstance(given[0], list) else [given] * len(per_node)
        if len(lists) != len(per_node):
            raise DescriptionError(
                f"roles.{role}: has {len(lists)} lists: must be one, or one for each of the "
                f"{len(per_node)} nodes with cores"
            )
        for i, locals_ in enumerate(lists):
            if not isinstance(locals_, list):
                raise DescriptionError(f"roles.{role}[{i}] = {locals_!r}: must be a list")
            for local in locals_:
                if not is_whole(local, 0, MAX_CORES) or local >= per_node[i]:
                    raise DescriptionError(
                        f"roles.{role}: core {local!r} is not in 0 to {per_node[i] - 1}"
                    )
                if role_of[i][local] != "other":
                    raise DescriptionError(f"roles.{role}: core {local} has two roles")
                role_of[i][local] = role
    flat = tuple(role for node in role_of for role in node)
    if "worker" not in flat:
        raise DescriptionError("roles.worker: must name at least one core")
    return flat


def _numbering(topology: Mapping[str, Any], name: str, length: int | None) -> list[int]:
    """A list of numbers from 0 without gaps, of the given length."""
    value = topology[name]
    if (
        not isinstance(value, list)
        or not value
        or not all(is_whole(v, 0, MAX_CORES) for v in value)
    ):
        raise DescriptionError(f"topology.{name} = {value!r}: must be a list of whole numbers")
    if length is not None and len(value) != length:
        raise DescriptionError(
            f"topology.{name}: has {len(value)} entries: must be {length}, one per core"
        )
    missing = set(range(max(value) + 1)) - set(value) if max(value) < len(value) else {len(value)}
    if missing:
        raise DescriptionError(
            f"topology.{name}: numbers go up to {max(value)}, but {min(missing)} is not used: "
            "must be numbered from 0 without gaps"
        )
    return value


def _count(table: Mapping[str, Any], name: str) -> int:
    value = table.get(name)
    if not is_whole(value, 1, MAX_CORES):
        raise DescriptionError(
            f"topology.{name} = {value!r}: must be a whole number above 0, up to {MAX_CORES}"
        )
    return value
