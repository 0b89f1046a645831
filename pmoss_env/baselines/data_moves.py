"""Moves of data in searches, where data may lie on other nodes than their cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pmoss_env.baselines.best_fit import best_fit
from pmoss_env.baselines.context import Context
from pmoss_env.baselines.load_aware import lpt
from pmoss_env.baselines.walk import Walk
from pmoss_env.memory import nearest_nodes
from pmoss_env.types import BoolArray, Int32Array, Schedule

#: Shares of the data that move together.
_SHARES = (1.0, 0.75, 0.5, 0.25)
#: Random moves of data between two rounds of moves to cores.
_TRIALS = 8


def settled(walk: Walk, context: Context, budget: int) -> Walk:
    """The better of a walk with settled data and of one that begins with LPT.

    Rules that know slow nodes leave their cores idle. After a move of the data these cores are as
    good as others. So data settle under LPT, which treats cores alike; then the counters are read
    again, and best-fit plans by them.

    Args:
        walk: of a search. The evaluations of both walks count.
        budget: of the search; at most half of it is used.
    """
    half = budget // 2
    if context.snapshot is None or half - walk.used < 8:
        return walk
    other = Walk(walk.backend, [lpt(context)], context)
    other.used += walk.used
    for _ in range(2):
        settle_data(other, context, half)
        if half - other.used < 4:
            break
        snapshot = other.measure()
        again = replace(context, incumbent=other.schedule(), snapshot=snapshot)
        cores = best_fit(again).cores
        nodes = other.homes[context.machine.node_of_core[cores]]
        if not other.try_schedule(Schedule(cores, nodes)):
            break
    better = max(walk, other, key=lambda candidate: candidate.throughput)
    better.used = other.used + 1
    better.backend.place(better.schedule())
    return better


def settle_data(walk: Walk, context: Context, budget: int) -> None:
    """Searches the best node for the data of each node's cores.

    First all nodes move a share of their data to their nearest nodes, in case some memory is better
    everywhere. Then the data of a single node's cores move. As the slowest core limits a server,
    such a move may only pay after others. So it is also kept if the throughput is equal and queries
    take less time in total.

    Args:
        walk: of a search; updates its ``homes``.
    """
    machine = context.machine
    near = nearest_nodes(machine)
    for rank in range(1, machine.nodes):
        for share in _SHARES:
            # One placement, and one to undo it.
            if budget - walk.used < 2:
                return
            homes = near[:, rank]
            chosen = context.rng.random(context.slices) < share
            if _try(walk, context, homes, chosen) and share == 1.0:
                walk.homes = homes.copy()
    time = _time(walk) if budget > walk.used else np.inf
    for node in np.unique(machine.node_of_core[machine.workers]).tolist():
        for target in near[node].tolist():
            if target == walk.homes[node]:
                continue
            if budget - walk.used < 4:
                return
            homes, before = walk.homes.copy(), walk.schedule()
            homes[node] = target
            chosen = machine.node_of_core[walk.cores] == node
            throughput = walk.throughput
            if not _try(walk, context, homes, chosen, worst=-1e-9 * throughput):
                continue
            after = _time(walk)
            if after < time:
                time, walk.homes = after, homes
            else:
                walk.try_schedule(before, lambda gain: True)


def shift_data(walk: Walk, context: Context, budget: int) -> None:
    """Tries random moves of some slices' data, and exchanges of two slices' data."""
    rng, machine = context.rng, context.machine
    for _ in range(_TRIALS):
        if budget - walk.used < 2:
            return
        nodes = walk.nodes.copy()
        if rng.random() < 0.3:
            a, b = rng.integers(context.slices, size=2)
            nodes[a], nodes[b] = nodes[b], nodes[a]
        else:
            chosen = rng.integers(context.slices)
            group = machine.node_of_core[walk.cores] == machine.node_of_core[walk.cores[chosen]]
            group &= rng.random(context.slices) < rng.choice([0.0, 0.1, 0.5])
            group[chosen] = True
            nodes = _moved(context, nodes, group, np.full(nodes.size, rng.integers(machine.nodes)))
        if (nodes != walk.nodes).any():
            walk.try_schedule(Schedule(walk.cores, nodes))


def _try(
    walk: Walk, context: Context, homes: Int32Array, chosen: BoolArray, worst: float = 0.0
) -> bool:
    """Moves the data of the chosen slices to the homes of their cores' nodes, if that pays."""
    targets = homes[context.machine.node_of_core[walk.cores]]
    nodes = _moved(context, walk.nodes, chosen, targets)
    if (nodes == walk.nodes).all():
        return False
    return walk.try_schedule(Schedule(walk.cores, nodes), lambda gain: gain > worst)


def _moved(
    context: Context, nodes: Int32Array, chosen: BoolArray, targets: Int32Array
) -> Int32Array:
    """The nodes after moves of the chosen data to their targets, as far as these have room."""
    moved = np.where(chosen, targets, nodes).astype(np.int32)
    limit = context.slices_of_node
    if limit is None:
        return moved
    for node in np.flatnonzero(np.bincount(moved, minlength=limit.size) > limit).tolist():
        arrived = np.flatnonzero((moved == node) & (nodes != node))
        excess = int((moved == node).sum()) - int(limit[node])
        back = arrived[-excess:] if excess > 0 else arrived[:0]
        moved[back] = nodes[back]
    if (np.bincount(moved, minlength=limit.size) > limit).any():
        return nodes
    return moved


def _time(walk: Walk) -> float:
    """The mean time of a query in microseconds."""
    snapshot = walk.measure()
    return float(snapshot.counter("elapsed_us").sum() / max(snapshot.throughput, 1e-30))
