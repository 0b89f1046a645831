"""This host as a machine description, read from the kernel; it has no model."""

from __future__ import annotations

import math

import numpy as np

from pmoss_env import _native
from pmoss_env.machines.description import Machine
from pmoss_env.platforms import host_topology
from pmoss_env.types import Int32Array

#: Least physical cores of a node with a router, and with a sweeper.
MIN_CORES_FOR_ROUTER = 4
MIN_CORES_FOR_SWEEPER = 8
#: Least physical cores of a node with the off-core sweeper or the stitcher, and with both.
MIN_CORES_FOR_HELPER = 12
MIN_CORES_FOR_TWO_HELPERS = 16


def describe_host(root: str = "/") -> Machine:
    """The CPUs that this process may use, one core per CPU, node by node.

    On a node with at least 4 physical cores the first is a router, and with 8 the second is a
    sweeper. The first two nodes with 12 cores have a third one, for the off-core sweeper and for
    the stitcher (P-MOSS, section 5). A single such node has both, if it has 16. The other hardware
    threads of these cores stay idle ("other"). On smaller nodes every CPU is a worker, and the
    roles share cores, which the snapshot notes.

    Raises:
        PlatformError: a portable build, which does not read its host.
    """
    topology = host_topology("the machine 'host'", root)
    facts = _native.host_facts(root)
    allowed = set(topology["allowed_cpus"]) if root == "/" else None
    cpus = [cpu for cpu in topology["cpus"] if allowed is None or cpu["id"] in allowed]
    node_ids = sorted({cpu["node"] for cpu in cpus})
    node_of = {node: i for i, node in enumerate(node_ids)}
    llc_of = {llc: i for i, llc in enumerate(sorted({cpu["llc"] for cpu in cpus}))}
    first_sibling = {cpu["id"]: min(cpu["siblings"]) for cpu in cpus}
    physical_of = {cpu: i for i, cpu in enumerate(sorted(set(first_sibling.values())))}
    cpus.sort(key=lambda cpu: (node_of[cpu["node"]], cpu["id"]))
    node = np.array([node_of[cpu["node"]] for cpu in cpus], dtype=np.int32)
    per_node = np.bincount(node)
    # A node may hold several packages, as without NUMA: the first one stands for it.
    package_of_node = [next(c["package"] for c in cpus if c["node"] == n) for n in node_ids]
    _, socket_of_node = np.unique(package_of_node, return_inverse=True)

    # One row per node; a single node is folded into a grid that is about square.
    cols = int(per_node.max())
    rows = len(node_ids)
    if rows == 1 and cols > 4:
        cols = math.ceil(math.sqrt(cols))
        rows = math.ceil(len(cpus) / cols)
    local = np.concatenate([np.arange(n) for n in per_node])
    tile = local if len(node_ids) == 1 else node * cols + local
    physical = np.array([physical_of[first_sibling[cpu["id"]]] for cpu in cpus], dtype=np.int32)
    return Machine(
        name="host",
        description=f"this host: {facts['cpu_model']}, {len(cpus)} CPUs on {len(node_ids)} node(s)",
        rows=rows,
        cols=cols,
        cpu_of_core=np.array([cpu["id"] for cpu in cpus], dtype=np.int32),
        node_of_core=node,
        llc_of_core=np.array([llc_of[cpu["llc"]] for cpu in cpus], dtype=np.int32),
        physical_of_core=physical,
        tile_of_core=tile.astype(np.int32),
        role_of_core=_roles(node, physical),
        socket_of_node=socket_of_node.astype(np.int32),
        parameters={},
    )


def kernel_nodes(machine: Machine) -> Int32Array:
    """(N,) int32: the kernel's number of each node; of a description's nodes, their own.

    Args:
        machine: ``load_machine("host")``, or any other.
    """
    if machine.name != "host":
        return np.arange(machine.nodes, dtype=np.int32)
    node_of_cpu = {cpu["id"]: cpu["node"] for cpu in host_topology("the machine 'host'")["cpus"]}
    first = [np.flatnonzero(machine.node_of_core == node)[0] for node in range(machine.nodes)]
    return np.array([node_of_cpu[cpu] for cpu in machine.cpu_of_core[first].tolist()], np.int32)


def _roles(node: Int32Array, physical: Int32Array) -> tuple[str, ...]:
    """The role of each CPU, from its node and its physical core; CPUs go node by node."""
    roles = ["worker"] * node.size
    helpers = 2
    cores_of = [list(dict.fromkeys(physical[node == n].tolist())) for n in np.unique(node)]
    have_room = sum(len(cores) >= MIN_CORES_FOR_HELPER for cores in cores_of)
    for cores in cores_of:
        wanted = ["router"] if len(cores) >= MIN_CORES_FOR_ROUTER else []
        wanted += ["sweeper"] if len(cores) >= MIN_CORES_FOR_SWEEPER else []
        if len(cores) >= MIN_CORES_FOR_HELPER and helpers:
            both = have_room == 1 and len(cores) >= MIN_CORES_FOR_TWO_HELPERS
            count = 2 if both else 1
            helpers -= count
            wanted += ["sweeper"] * count
        for core, role in zip(cores, wanted, strict=False):
            first, *siblings = np.flatnonzero(physical == core)
            roles[first] = role
            for sibling in siblings:
                roles[sibling] = "other"
    return tuple(roles)
