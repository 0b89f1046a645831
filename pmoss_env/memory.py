"""How much memory slices take, how many of them a node holds, and where the others go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_env.backends.native_forms import record_shares
from pmoss_env.errors import ScheduleError
from pmoss_env.indexes import holds_points
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, Int32Array, Schedule
from pmoss_env.workloads import Workload

#: The constraint of an episode that says how much of each node's memory the index may fill.
CONSTRAINT = "node_memory_gib"
#: Bytes of a record: key and value in leaves that random inserts left ln 2 full, with the nodes
#: above. A point has two coordinates.
KEY_BYTES, POINT_BYTES = 24.0, 36.0


def slice_gib(workload: Workload, slices: int) -> float:
    """GiB of the largest slice, by the records that it holds when the index is loaded.

    Raises:
        DescriptionError: an impossible workload.
    """
    each = POINT_BYTES if holds_points(workload.index) else KEY_BYTES
    return max(record_shares(workload, slices)) * workload.records * each / 2.0**30


def memory_gib(machine: Machine, constraints: Mapping[str, Any] | None) -> list[float]:
    """(N,) GiB of each node that the index may fill; infinite where it is not known.

    Args:
        machine: its own memory, unless the constraint says less or more.
        constraints: None, or of an episode: ``node_memory_gib`` is a number for every node or a
            list with one for each.

    Raises:
        ScheduleError: another form, a negative number or not one for each node.
    """
    given = (constraints or {}).get(CONSTRAINT)
    if given is None:
        return [float(one) for one in machine.node_memory_gib]
    values = given if isinstance(given, list) else [given] * machine.nodes
    plain = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values)
    if not plain or not all(0 <= one < np.inf for one in values) or len(values) != machine.nodes:
        raise ScheduleError(
            f"constraints: {CONSTRAINT} = {given!r}: must be a number of GiB from 0, or one for "
            f"each of the {machine.nodes} nodes of {machine.name}"
        )
    return [float(one) for one in values]


def slices_of_node(
    machine: Machine, workload: Workload, slices: int, constraints: Mapping[str, Any] | None
) -> Int32Array | None:
    """(N,) int32: how many slices' data each node may hold; None where that is no limit.

    Every slice counts as the largest one, so that whatever was placed the others still fit.

    Raises:
        ScheduleError: an impossible constraint, or too little memory for all slices.
    """
    gib = memory_gib(machine, constraints)
    if not np.isfinite(gib).any():
        return None
    size = slice_gib(workload, slices)
    # A node is no fuller for what is rounded in its 12th digit.
    fits = np.minimum(np.floor(np.array(gib) / size * (1 + 1e-12)), slices)
    room = fits.astype(np.int32)
    if room.sum() < slices:
        raise ScheduleError(
            f"constraints: {CONSTRAINT}: the nodes hold {room.sum()} of {slices} slices: the "
            f"largest one takes {size:.4g} GiB; give at least {size * slices:.4g} GiB in all"
        )
    return None if room.min() >= slices else room


def check_memory(machine: Machine, schedule: Schedule, room: Int32Array | None) -> None:
    """Raises ScheduleError if a schedule overfills a node.

    Args:
        machine: that runs it.
        schedule: its data are looked at where it places them slice by slice.
        room: (N,) of slices_of_node().
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
    """(N, N) int32: for each node, all nodes by how far their memory is from its cores.

    A node is nearest to itself. Without latencies, the same socket comes first, then the number.
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
    """The schedule of ``cores`` with data on their nodes, or on the next node where one is full.

    Linux falls back in this way when memory is allocated. What comes first stays local.

    Args:
        machine: whose cores they are.
        cores: (slices,) the core of each slice.
        room: (N,) of slices_of_node().
        order: (slices,) who comes first; None: by index.
    """
    local = machine.local_schedule(cores)
    if room is None:
        return local
    left, near = room.copy(), nearest_nodes(machine)
    nodes = local.nodes.copy()
    for s in range(cores.size) if order is None else order.tolist():
        ways = near[local.nodes[s]]
        node = ways[np.argmax(left[ways] > 0)]
        nodes[s] = node
        left[node] -= 1
    return Schedule(local.cores, nodes)


def relocated(
    machine: Machine,
    cores: Int32Array,
    room: Int32Array,
    load: Float64Array,
    most: int | None = None,
) -> Schedule:
    """The schedule of ``cores`` without the slices that their nodes cannot hold.

    The heaviest slices stay. Each other one goes to the worker with the least load on a node with
    room, and its data with it.

    Args:
        machine: whose cores they are.
        cores: (slices,) the core of each slice.
        room: (N,) of slices_of_node().
        load: (slices,) non-negative, in any unit.
        most: slices that a core may get; None: any number.

    Raises:
        ScheduleError: the nodes with workers have no room for all slices.
    """
    chosen, left = cores.copy(), room.copy()
    homeless = []
    for s in np.argsort(-load, kind="stable").tolist():
        node = machine.node_of_core[cores[s]]
        if left[node] > 0:
            left[node] -= 1
        else:
            homeless.append(s)
    stay = np.ones(cores.size, dtype=np.bool_)
    stay[homeless] = False
    workers = machine.workers
    busy = np.bincount(cores[stay], load[stay], machine.cores)[workers]
    count = np.bincount(cores[stay], minlength=machine.cores)[workers]
    for s in homeless:
        free = left[machine.node_of_core[workers]] > 0
        if most is not None:
            free &= count < most
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
