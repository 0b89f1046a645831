"""This host as a machine description, read from the kernel: it is measured, not modelled."""

from __future__ import annotations

import math

import numpy as np

from pmoss_env import _native
from pmoss_env.machines.description import Machine

#: With at least this many CPUs a node can spare one for routing, and another one for sweeping.
SPARE_A_ROUTER = 4
SPARE_A_SWEEPER = 8


def describe_host(root: str = "/") -> Machine:
    """The CPUs that this process may use, one core per CPU, node by node.

    A node with at least four CPUs gives its first to a router, and with eight its second to a
    sweeper; on smaller ones every CPU is a worker and the router shares one of them, which the
    snapshot says.

    Args:
        root: where /sys is found; tests describe other machines in files.
    """
    topology = _native.host_topology(root)
    facts = _native.host_facts(root)
    allowed = set(topology["allowed_cpus"]) if root == "/" else None
    cpus = [cpu for cpu in topology["cpus"] if allowed is None or cpu["id"] in allowed]
    node_ids = sorted({cpu["node"] for cpu in cpus})
    node_of = {node: i for i, node in enumerate(node_ids)}
    llc_of = {llc: i for i, llc in enumerate(sorted({cpu["llc"] for cpu in cpus}))}
    first_sibling = {cpu["id"]: min(cpu["siblings"]) for cpu in cpus}
    physical_of = {cpu: i for i, cpu in enumerate(sorted(set(first_sibling.values())))}
    package_of = {p: i for i, p in enumerate(sorted({cpu["package"] for cpu in cpus}))}
    cpus.sort(key=lambda cpu: (node_of[cpu["node"]], cpu["id"]))
    node = np.array([node_of[cpu["node"]] for cpu in cpus], dtype=np.int32)
    per_node = np.bincount(node)
    socket_of_node = np.zeros(len(node_ids), dtype=np.int32)
    for cpu in cpus:
        socket_of_node[node_of[cpu["node"]]] = package_of[cpu["package"]]

    # One row per node; a single node is folded into a grid that is about square.
    cols = int(per_node.max())
    rows = len(node_ids)
    if rows == 1 and cols > 4:
        cols = math.ceil(math.sqrt(cols))
        rows = math.ceil(len(cpus) / cols)
    local = np.concatenate([np.arange(n) for n in per_node])
    tile = local if len(node_ids) == 1 else node * cols + local
    roles = tuple(
        "router"
        if i == 0 and per_node[n] >= SPARE_A_ROUTER
        else "sweeper"
        if i == 1 and per_node[n] >= SPARE_A_SWEEPER
        else "worker"
        for n, i in zip(node, local, strict=True)
    )
    return Machine(
        name="host",
        description=f"this host: {facts['cpu_model']}, {len(cpus)} CPUs on {len(node_ids)} node(s)",
        rows=rows,
        cols=cols,
        cpu_of_core=np.array([cpu["id"] for cpu in cpus], dtype=np.int32),
        node_of_core=node,
        llc_of_core=np.array([llc_of[cpu["llc"]] for cpu in cpus], dtype=np.int32),
        physical_of_core=np.array(
            [physical_of[first_sibling[cpu["id"]]] for cpu in cpus], dtype=np.int32
        ),
        tile_of_core=tile.astype(np.int32),
        role_of_core=roles,
        socket_of_node=socket_of_node,
        parameters={},
    )
