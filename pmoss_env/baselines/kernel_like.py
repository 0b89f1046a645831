"""Baselines like an operating system's scheduler: thresholds instead of a model.

They change the incumbent only where loads exceed a threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.baselines.context import COUNTERS, Context, uses
from pmoss_env.baselines.load_aware import slice_load
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import (
    COUNTER_INDEX,
    Float64Array,
    HardwareSnapshot,
    Int32Array,
    Schedule,
)

#: Tolerated excess over the mean load between nodes, and between the cores of a node: the
#: thresholds of scx_rusty, a scheduler for Linux's sched_ext.
BETWEEN_NODES, WITHIN_NODE = 0.17, 0.05
#: A slice is heavy above this multiple of the mean slice's misses.
HEAVY = 2.0


@uses(COUNTERS)
def balance_two_levels(context: Context) -> Schedule:
    """Balances load between nodes, then between the cores of each node, by thresholds.

    While the most loaded node exceeds the mean by more than 17 %, the slice that best closes the
    gap moves to the least loaded node. Then the same happens between the cores of each node, above
    5 %.

    Args:
        context: needs ``incumbent`` and ``snapshot``.

    Raises:
        UnsupportedError: one of them is missing.
    """
    incumbent, snapshot = _running(context, "two-level")
    machine = context.machine
    load = slice_load(snapshot)
    cores = _within_limit(context, incumbent, load)
    workers = machine.workers
    node_of_worker = machine.node_of_core[workers]
    nodes = [workers[node_of_worker == node] for node in np.unique(node_of_worker)]
    _balance(cores, load, nodes, BETWEEN_NODES, context.max_slices_per_core)
    for node_cores in nodes:
        single_cores = [node_cores[i : i + 1] for i in range(node_cores.size)]
        _balance(cores, load, single_cores, WITHIN_NODE, context.max_slices_per_core)
    return context.local_schedule(cores)


@uses(COUNTERS)
def spread_by_misses(context: Context) -> Schedule:
    """Spreads the slices whose last-level misses exceed a threshold; the others stay.

    One counter and one threshold, as in scx_cosmos, a scheduler for Linux's sched_ext: each heavy
    slice, heaviest first, goes to the worker with the fewest misses so far.

    Args:
        context: needs ``incumbent`` and ``snapshot``.

    Raises:
        UnsupportedError: one of them is missing, or last-level misses were not counted.
    """
    incumbent, snapshot = _running(context, "counter-threshold")
    if not snapshot.counters_available[COUNTER_INDEX["llc_misses"]]:
        raise UnsupportedError("the baseline 'counter-threshold' needs a snapshot with llc_misses")
    machine = context.machine
    misses = snapshot.counter("llc_misses")
    heavy = np.flatnonzero(misses > HEAVY * misses.mean())
    cores = _within_limit(context, incumbent, misses)
    total = np.bincount(cores, misses, machine.cores)
    count = np.bincount(cores, minlength=machine.cores)
    for slice_ in heavy[np.argsort(-misses[heavy], kind="stable")]:
        home = cores[slice_]
        total[home] -= misses[slice_]
        count[home] -= 1
        core = _least(total, count, machine.workers, context.max_slices_per_core)
        cores[slice_] = home if core is None else core
        total[cores[slice_]] += misses[slice_]
        count[cores[slice_]] += 1
    return context.local_schedule(cores)


def _running(context: Context, name: str) -> tuple[Schedule, HardwareSnapshot]:
    if context.incumbent is None or context.snapshot is None:
        raise UnsupportedError(f"the baseline {name!r} needs an incumbent and its snapshot")
    return context.incumbent, context.snapshot


def _within_limit(context: Context, incumbent: Schedule, load: Float64Array) -> Int32Array:
    """The incumbent's cores, with the lightest slices moved off cores that exceed the limit."""
    cores = incumbent.cores.copy()
    limit = context.max_slices_per_core
    if limit is None:
        return cores
    total = np.bincount(cores, load, context.machine.cores)
    count = np.bincount(cores, minlength=context.machine.cores)
    for slice_ in np.argsort(load, kind="stable"):
        home = cores[slice_]
        if count[home] <= limit:
            continue
        core = _least(total, count, context.machine.workers, limit)
        if core is None:
            break
        cores[slice_] = core
        total[[home, core]] += -load[slice_], load[slice_]
        count[[home, core]] += -1, 1
    return cores


def _balance(
    cores: Int32Array,
    load: Float64Array,
    groups: Sequence[Int32Array],
    threshold: float,
    limit: int | None,
) -> None:
    """Moves slices between groups of cores, in place, until none exceeds the mean per core."""
    members = np.concatenate(groups)
    group_of = np.full(int(members.max()) + 1, -1)
    for i, group in enumerate(groups):
        group_of[group] = i
    inside = np.flatnonzero(np.isin(cores, members))
    sizes = np.array([group.size for group in groups])
    for _ in range(inside.size):  # on average at most one move per slice
        of_slice = group_of[cores[inside]]
        total = np.bincount(of_slice, load[inside], len(groups))
        mean = total.sum() / sizes.sum()
        excess = total - mean * sizes
        worst = int(np.argmax(excess / sizes))
        best = int(np.argmin(excess / sizes))
        if excess[worst] <= threshold * mean * sizes[worst]:
            return
        members_of_worst = inside[of_slice == worst]
        gap = min(excess[worst], -excess[best])
        fits = members_of_worst[load[members_of_worst] <= 2.0 * gap]  # more would invert the gap
        fits = fits[load[fits] > 0]
        count = np.bincount(cores, minlength=members.max() + 1)
        core_load = np.bincount(cores, load, members.max() + 1)
        core = _least(core_load, count, groups[best], limit)
        if fits.size == 0 or core is None:
            return
        cores[fits[np.argmin(np.abs(load[fits] - gap))]] = core


def _least(
    total: npt.NDArray[Any], count: npt.NDArray[np.int64], workers: Int32Array, limit: int | None
) -> int | None:
    """The worker with the least total that may take another slice; None if all are full."""
    free = workers if limit is None else workers[count[workers] < limit]
    return int(free[np.argmin(total[free])]) if free.size else None
