"""Schedules of every kind, good and bad: a model must be right about all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pmoss_env.baselines import (
    SHARED_BASELINES,
    Context,
    in_runs,
    longest_first,
    lpt,
    random,
    slice_load,
)
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Schedule

#: Share of the workers that the schedules of "few_cores" use.
FEWEST_WORKERS = 0.3


def _random(context: Context) -> Schedule:
    """Every slice on a random worker, its data beside it."""
    return random(context)


def _runs(context: Context) -> Schedule:
    """Grouped, Spread and what lies between, from a random slice on."""
    longest = max(1, context.slices // context.machine.nodes)
    run = int(2 ** context.rng.uniform(0, np.log2(longest)))
    shift = int(context.rng.integers(context.slices))
    return context.machine.local_schedule(np.roll(in_runs(context, run).cores, shift))


def _balanced(context: Context) -> Schedule:
    """LPT, with some of the slices moved at random."""
    cores = lpt(context).cores.copy()
    moved = context.rng.permutation(context.slices)[: int(2 ** context.rng.uniform(0, 6)) - 1]
    cores[moved] = context.rng.choice(context.machine.workers, size=moved.size)
    return context.machine.local_schedule(cores)


def _far_data(context: Context) -> Schedule:
    """Random cores, data on random nodes: the affinity of the published learned schedules."""
    nodes = context.rng.integers(context.machine.nodes, size=context.slices, dtype=np.int32)
    return Schedule(random(context).cores, nodes)


def _hot_node(context: Context) -> Schedule:
    """Balanced cores, most of the data on one node."""
    schedule = lpt(context)
    away = context.rng.random(context.slices) < context.rng.uniform(0.5, 1.0)
    node = int(context.rng.integers(context.machine.nodes))
    return Schedule(schedule.cores, np.where(away, node, schedule.nodes))


def _few_cores(context: Context) -> Schedule:
    """Balanced over only some of the workers, in a random part of the machine."""
    machine = context.machine
    least = max(1, int(FEWEST_WORKERS * machine.workers.size))
    count = int(context.rng.integers(least, machine.workers.size, endpoint=True))
    chosen = np.roll(machine.workers, int(context.rng.integers(machine.workers.size)))[:count]
    assert context.snapshot is not None
    # Places by rank among the chosen workers, as on a machine that had only these.
    load = slice_load(context.snapshot)
    total = np.zeros(count)
    cores = np.empty(context.slices, dtype=np.int32)
    for s in np.argsort(-load, kind="stable"):
        w = int(total.argmin())
        cores[s] = chosen[w]
        total[w] += load[s]
    return machine.local_schedule(cores)


def _uneven(context: Context) -> Schedule:
    """Balanced for core speeds that the machine does not have."""
    assert context.snapshot is not None
    speed = np.exp(context.rng.normal(0.0, 0.6, context.machine.cores))
    return longest_first(slice_load(context.snapshot), context.machine, None, speed)


#: Strata of core-affine schedules by name.
STRATA: Mapping[str, Callable[[Context], Schedule]] = {
    "random": _random,
    "runs": _runs,
    "balanced": _balanced,
    "far_data": _far_data,
    "hot_node": _hot_node,
    "few_cores": _few_cores,
    "uneven": _uneven,
}


def stratified(context: Context, count: int) -> list[tuple[str, Schedule]]:
    """``count`` schedules and their strata: the shared ones once, the others in equal parts.

    Args:
        context: needs ``snapshot`` and ``rng``.
        count: how many, at least one of each.
    """
    least = len(STRATA) + len(SHARED_BASELINES)
    if count < least:
        raise DescriptionError(f"schedules = {count}: must be at least {least}, one of each kind")
    schedules = [(name, baseline(context)) for name, baseline in SHARED_BASELINES.items()]
    kinds = list(STRATA.items())
    for i in range(count - len(SHARED_BASELINES)):
        name, draw = kinds[i % len(kinds)]
        schedules.append((name, draw(context)))
    return schedules
