"""The memory of slices: how many fit on a node, and where the others are placed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_env.backends.native_forms import record_shares
from pmoss_env.checks import is_number
from pmoss_env.errors import ScheduleError
from pmoss_env.indexes import holds_points
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, Int32Array, Schedule
from pmoss_env.workloads import Workload
from pmoss_env.workloads.description import WORD_BYTES

#: Name of the constraint on the memory of each node that the index may fill.
CONSTRAINT = "node_memory_gib"
#: Bytes per record: key and value in leaves that are ln 2 full after random inserts, and the inner
#: nodes. A point has two coordinates.
KEY_BYTES, POINT_BYTES = 24.0, 36.0
#: A larger value than a word lies beside the tree, with a header, in whole cache lines.
_HEADER_BYTES, _LINE_BYTES = 8, 64


def record_bytes(workload: Workload) -> float:
    """Bytes that a record takes in a freshly loaded index."""
    in_tree = POINT_BYTES if holds_points(workload.index) else KEY_BYTES
    if workload.value_bytes == WORD_BYTES:
        return in_tree
    lines = math.ceil((_HEADER_BYTES + workload.value_bytes) / _LINE_BYTES)
    return in_tree + lines * _LINE_BYTES


def slice_gib(workload: Workload, slices: int) -> float:
    """Size in GiB of the largest slice of a freshly loaded index.

    Raises:
        DescriptionError: an impossible workload.
    """
    largest = max(record_shares(workload, slices)) * workload.records
    return largest * record_bytes(workload) / 2.0**30


def memory_gib(machine: Machine, constraints: Mapping[str, Any] | None) -> list[float]:
    """(N,) memory in GiB of each node that the index may fill; infinite if unknown.

    Args:
        machine: gives the memory, unless the constraint does.
        constraints: None, or of an episode: ``node_memory_gib`` is a number for every node, or a
            list with a number for each.

    Raises:
        ScheduleError: the constraint has another form, a negative number or a wrong length.
    """
    given = (constraints or {}).get(CONSTRAINT)
    if given is None:
        return [float(gib) for gib in machine.node_memory_gib]
    values = given if isinstance(given, list) else [given] * machine.nodes
    if len(values) != machine.nodes or not all(is_number(gib) and gib >= 0 for gib in values):
        raise ScheduleError(
            f"constraints: {CONSTRAINT} = {given!r}: must be a number of GiB from 0, or one for "
            f"each of the {machine.nodes} nodes of {machine.name}"
        )
    return [float(gib) for gib in values]


def slices_of_node(
    machine: Machine, workload: Workload, slices: int, constraints: Mapping[str, Any] | None
) -> Int32Array | None:
    """(N,) int32: number of slices whose data fit on each node; None without a limit.

    Every slice counts as the largest, so that slices still fit whichever were placed before.

    Raises:
        ScheduleError: an impossible constraint, or too little memory for all slices.
    """
    gib = memory_gib(machine, constraints)
    if not np.isfinite(gib).any():
        return None
    size = slice_gib(workload, slices)
    # Rounding errors must not cost a slice.
    fits = np.minimum(np.floor(np.array(gib) / size * (1 + 1e-12)), slices)
    room = fits.astype(np.int32)
    if room.sum() < slices:
        raise ScheduleError(
            f"constraints: {CONSTRAINT}: the nodes hold {room.sum()} of {slices} slices: the "
            f"largest one takes {size:.4g} GiB; give at least {size * slices:.4g} GiB in all"
        )
    return None if room.min() >= slices else room


def check_memory(machine: Machine, schedule: Schedule, room: Int32Array | None) -> None:
    """Raises ScheduleError if a schedule puts too much data on a node.

    Args:
        schedule: checked only if it places data slice by slice.
        room: (N,) result of slices_of_node().
    """
    if room is None or schedule.data != "slice":
        return
    count = np.bincount(schedule.nodes, minlength=machine.nodes)
    if (count > room).any():
        node = int(np.flatnonzero(count > room)[0])
        free = np.flatnonzero(count < room).tolist()
        raise ScheduleError(
            f"the schedule puts the data of {count[node]} slices on node {node} of "
            f"{machine.name}, whose memory holds {room[node]}: nodes {free} have room"
        )


def nearest_nodes(machine: Machine) -> Int32Array:
    """(N, N) int32: for each node, all nodes by the distance of their memory, nearest first.

    A node is nearest to itself. Without latencies, nodes of the same socket come first.
    """
    number = np.arange(machine.nodes)
    apart = (machine.socket_of_node[:, None] != machine.socket_of_node).astype(np.float64)
    if machine.parameters:
        apart = machine.distances.dram_ns
    own = number[:, None] != number
    keys = (np.broadcast_to(number, apart.shape), apart, own)
    return np.lexsort(keys, axis=1).astype(np.int32)


def spilled(
    machine: Machine, cores: Int32Array, room: Int32Array | None, order: Int32Array | None = None
) -> Schedule:
    """The schedule of ``cores`` with data on their nodes, or on the nearest node with room.

    Linux allocates memory in the same way. Data of the first slices stay local.

    Args:
        cores: (slices,) the core of each slice.
        room: (N,) result of slices_of_node().
        order: (slices,) order of allocation; None: by index.
    """
    local = machine.local_schedule(cores)
    if room is None:
        return local
    left, near = room.copy(), nearest_nodes(machine)
    nodes = local.nodes.copy()
    for s in range(cores.size) if order is None else order.tolist():
        candidates = near[local.nodes[s]]
        node = candidates[np.argmax(left[candidates] > 0)]
        nodes[s] = node
        left[node] -= 1
    return Schedule(local.cores, nodes)


def relocated(
    machine: Machine,
    cores: Int32Array,
    room: Int32Array,
    load: Float64Array,
    max_slices_per_core: int | None = None,
) -> Schedule:
    """The schedule of ``cores``, except that slices leave full nodes.

    The heaviest slices of a node stay. Each other slice moves, with its data, to the least loaded
    worker on a node with room.

    Args:
        cores: (slices,) the core of each slice.
        room: (N,) result of slices_of_node().
        load: (slices,) non-negative, in any unit.
        max_slices_per_core: limit per core; None: no limit.

    Raises:
        ScheduleError: the nodes with workers have no room for all slices.
    """
    chosen, left = cores.copy(), room.copy()
    excess = []
    for s in np.argsort(-load, kind="stable").tolist():
        node = machine.node_of_core[cores[s]]
        if left[node] > 0:
            left[node] -= 1
        else:
            excess.append(s)
    stay = np.ones(cores.size, dtype=np.bool_)
    stay[excess] = False
    workers = machine.workers
    busy = np.bincount(cores[stay], load[stay], machine.cores)[workers]
    count = np.bincount(cores[stay], minlength=machine.cores)[workers]
    for s in excess:
        free = left[machine.node_of_core[workers]] > 0
        if max_slices_per_core is not None:
            free &= count < max_slices_per_core
        if not free.any():
            raise ScheduleError(
                f"slice {s}: no worker of {machine.name} has room on its own node; "
                "actions='core_node' may put its data elsewhere"
            )
        w = int(np.where(free, busy, np.inf).argmin())
        chosen[s] = workers[w]
        busy[w] += load[s]
        count[w] += 1
        left[machine.node_of_core[workers[w]]] -= 1
    return machine.local_schedule(chosen)
