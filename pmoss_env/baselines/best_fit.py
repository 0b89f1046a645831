"""Best fit: fills the cores one by one, by times predicted from the counters."""

from __future__ import annotations

import numpy as np

from pmoss_env.baselines.context import COUNTERS, Context, uses
from pmoss_env.baselines.load_aware import core_speed, slice_load
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import COUNTER_INDEX, Float64Array, Schedule

#: Allowed excess of a core over the time at which all cores would end together.
SLACK = 0.05
#: Counters that predict a slice's time on another core, in addition to its load.
_MEMORY = ("cycles", "cycles_mem_any", "l1d_misses")


@uses(COUNTERS)
def best_fit(context: Context) -> Schedule:
    """Each slice on the fullest core that it does not overfill, in the order of the episode.

    A core is full when it ends 5 % after the time at which all cores would end if work were
    divisible. A slice that overfills every core goes to the core that ends first. So light slices
    leave whole cores to the heavy slices that follow. The rule is best-fit bin packing (Johnson et
    al., Worst-Case Performance Bounds for Simple One-Dimensional Packing Algorithms, 1974).

    Data lie on the core's node. Data of a full node go to the next one, if the action may choose a
    node; else the slice goes to a core of another node.

    UnsupportedError without a snapshot.
    """
    if context.incumbent is None or context.snapshot is None:
        raise UnsupportedError("the baseline 'best-fit' needs an incumbent and its snapshot")
    machine, limit = context.machine, context.max_slices_per_core
    workers = machine.workers
    times = predicted_times(context)
    # Above 0 for an incumbent that served nothing.
    full = (1.0 + SLACK) / (1.0 / np.maximum(times.sum(axis=0), 1e-12)).sum()
    order = context.order
    if order is None:
        order = np.argsort(-slice_load(context.snapshot), kind="stable").astype(np.int32)
    cores = np.empty(context.slices, dtype=np.int32)
    busy = np.zeros(workers.size)
    count = np.zeros(workers.size, dtype=np.int64)
    for s in order:
        end = busy + times[s]
        if limit is not None:
            end[count == limit] = np.inf
        below = end[end <= full]
        wanted = np.maximum.reduce(below) if below.size else np.minimum.reduce(end)
        w = (ties := (end == wanted).nonzero()[0])[0]
        if ties.size > 1:
            # Random ties, so that a learner cannot take a core's number for the reason.
            w = ties[context.rng.integers(ties.size)]
        cores[s] = workers[w]
        busy[w] = end[w]
        count[w] += 1
    return context.local_schedule(cores)


def predicted_times(context: Context) -> Float64Array:
    """(slices, workers) float64: share of a worker's time that each slice would take.

    Outside of memory a slice takes the same time everywhere. In memory it takes its first-level
    misses times the cost of a miss in the core's domain. That cost is estimated from the slices
    that ran there, so that a slow node is not mistaken for heavy slices. Both times are longer on a
    core that loses time to co-tenants. Without the counters all domains or cores count as equal.

    Args:
        context: needs ``incumbent`` and ``snapshot``.
    """
    assert context.incumbent is not None and context.snapshot is not None
    machine, snapshot = context.machine, context.snapshot
    workers = machine.workers
    load = slice_load(snapshot)
    speed = core_speed(context)
    slowness = np.ones(workers.size) if speed is None else 1.0 / speed[workers]
    if not all(snapshot.counters_available[COUNTER_INDEX[name]] for name in _MEMORY):
        return load[:, None] * slowness
    cycles, in_memory, misses = (snapshot.counter(name) for name in _MEMORY)
    share = np.divide(in_memory, cycles, out=np.zeros_like(cycles), where=cycles > 0)
    # With noise the cycles in memory may exceed all cycles.
    stalled = load * np.minimum(share, 1.0)
    domain = machine.domain_of_core
    ran = domain[context.incumbent.cores]
    spent, missed = (np.bincount(ran, values, domain.max() + 1) for values in (stalled, misses))
    # A domain that ran nothing gets the mean cost.
    mean_cost = stalled.sum() / max(misses.sum(), 1e-9)
    cost = np.divide(spent, missed, out=np.full_like(spent, mean_cost), where=missed > 0)
    return ((load - stalled)[:, None] + misses[:, None] * cost[domain[workers]]) * slowness
