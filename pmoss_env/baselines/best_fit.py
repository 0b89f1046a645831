"""Best fit: fills one core after the other, by times predicted from the counters."""

from __future__ import annotations

import numpy as np

from pmoss_env.baselines.context import COUNTERS, Context, uses
from pmoss_env.baselines.load_aware import core_speed, slice_load
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import COUNTER_INDEX, Float64Array, Schedule

#: How far above the time at which all cores would end together a core may be filled.
SLACK = 0.05
#: The counters that predict a slice's time on another core, besides its load.
_MEMORY = ("cycles", "cycles_mem_any", "l1d_misses")


@uses(COUNTERS)
def best_fit(context: Context) -> Schedule:
    """Each slice on the fullest core that it does not overfill, in the order of the episode.

    If work could be divided at will, all cores would end together. A core is full when it ends 5 %
    after that. A slice that overfills every core goes where it ends first. So light slices leave
    whole cores to the heavy ones that are still to come. List scheduling in the same order does
    not. The rule is best-fit bin packing (Johnson et al., Worst-Case Performance Bounds for Simple
    One-Dimensional Packing Algorithms, 1974).

    Data lie on the core's node. Where that is full they spill to the next one, if the action may
    choose a node; else the slice goes to a core of another node.

    UnsupportedError without a snapshot.
    """
    if context.incumbent is None or context.snapshot is None:
        raise UnsupportedError("the baseline 'best-fit' needs an incumbent and its snapshot")
    machine, most = context.machine, context.max_slices_per_core
    workers = machine.workers
    times = foretold_times(context)
    # Above 0, for an incumbent that served nothing is balanced too.
    full = (1.0 + SLACK) / (1.0 / np.maximum(times.sum(axis=0), 1e-12)).sum()
    order = context.order
    if order is None:
        order = np.argsort(-slice_load(context.snapshot), kind="stable").astype(np.int32)
    cores = np.empty(context.slices, dtype=np.int32)
    busy = np.zeros(workers.size)
    count = np.zeros(workers.size, dtype=np.int64)
    for s in order:
        end = busy + times[s]
        if most is not None:
            end[count == most] = np.inf
        below = end[end <= full]
        wanted = np.maximum.reduce(below) if below.size else np.minimum.reduce(end)
        w = (alike := (end == wanted).nonzero()[0])[0]
        if alike.size > 1:
            # Ties are broken at random, so that a learner cannot learn a core's number as the
            # reason.
            w = alike[context.rng.integers(alike.size)]
        cores[s] = workers[w]
        busy[w] = end[w]
        count[w] += 1
    return context.local_schedule(cores)


def foretold_times(context: Context) -> Float64Array:
    """(slices, workers) float64: share of a worker's time that each slice would take.

    Outside memory a slice takes the same time everywhere. In memory it takes its first-level misses
    times the cost of one in the core's domain. That cost is estimated from the slices that ran
    there, so that a slow node is not mistaken for heavy slices. Both times are longer on a core
    that loses time to others. Where counters were not available, all domains or cores count as
    alike.

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
    # Noise may count more cycles in memory than in all.
    stalled = load * np.minimum(share, 1.0)
    domain = machine.domain_of_core
    ran = domain[context.incumbent.cores]
    spent, missed = (np.bincount(ran, each, domain.max() + 1) for each in (stalled, misses))
    # What ran nothing is taken for ordinary.
    ordinary = stalled.sum() / max(misses.sum(), 1e-9)
    cost = np.divide(spent, missed, out=np.full_like(spent, ordinary), where=missed > 0)
    return ((load - stalled)[:, None] + misses[:, None] * cost[domain[workers]]) * slowness
