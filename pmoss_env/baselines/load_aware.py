"""Schedules by measured load in a single pass: LPT and greedy rules."""

from __future__ import annotations

import numpy as np

from pmoss_env.baselines.context import COUNTERS, Context, uses
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_INDEX,
    Float64Array,
    HardwareSnapshot,
    Int32Array,
    Schedule,
)

#: The counters of core_speed().
_TIMES = ("task_clock_us", "elapsed_us")


def slice_load(snapshot: HardwareSnapshot) -> Float64Array:
    """(slices,) float64: cores kept busy by each slice, or Mq/s without a task clock."""
    name = "task_clock_us"
    if not snapshot.counters_available[COUNTER_INDEX[name]]:
        name = "queries"
    return snapshot.counter(name)


def core_speed(context: Context) -> Float64Array | None:
    """(cores,) float64: speed of each core under the incumbent; None without the counters.

    The speed is the core's processor time over the time of its queries; 1 for a core that served
    nothing.
    """
    snapshot = context.snapshot
    if (
        snapshot is None
        or context.incumbent is None
        or not all(snapshot.counters_available[COUNTER_INDEX[name]] for name in _TIMES)
    ):
        return None
    busy, elapsed = (
        np.bincount(context.incumbent.cores, snapshot.counter(name), context.machine.cores)
        for name in _TIMES
    )
    return np.divide(busy, elapsed, out=np.ones_like(busy), where=(busy > 0) & (elapsed > 0))


def longest_first(
    load: Float64Array,
    machine: Machine,
    max_slices_per_core: int | None = None,
    speed: Float64Array | None = None,
    order: Int32Array | None = None,
    rng: np.random.Generator | None = None,
) -> Schedule:
    """LPT: the heaviest slice first, each on the worker that then ends first.

    On m equal workers the busiest one gets at most 4/3 - 1/(3 m) times the least possible load
    (Graham, Bounds on Multiprocessing Timing Anomalies, 1969). Equal loads are ordered by index.

    Args:
        load: (slices,) non-negative loads in any unit.
        max_slices_per_core: limit per core; None: no limit.
        speed: (cores,) positive load that each core serves per time; None: equal speeds.
        order: (slices,) another order than the heaviest first; Graham's bound is then 2 - 1/m.
        rng: chooses between workers that end together; None: the one with fewest slices, then the
            lowest number.
    """
    workers = machine.workers
    cores = np.empty(load.size, dtype=np.int32)
    pace = np.ones(workers.size) if speed is None else speed[workers]
    total = np.zeros(workers.size)
    count = np.zeros(workers.size, dtype=np.int64)
    for s in np.argsort(-load, kind="stable") if order is None else order:
        end = (total + load[s]) / pace
        if max_slices_per_core is not None:
            end[count == max_slices_per_core] = np.inf
        first = np.flatnonzero(end == end.min())
        # The number of slices also spreads slices without load.
        w = first[count[first].argmin()] if rng is None else rng.choice(first)
        cores[s] = workers[w]
        total[w] += load[s]
        count[w] += 1
    return machine.local_schedule(cores)


@uses(COUNTERS)
def lpt(context: Context) -> Schedule:
    """Longest processing time: the heaviest slice goes first, to the least loaded worker.

    It reads the load of each slice. UnsupportedError without a snapshot.
    """
    load = _measured_load(context, "lpt")
    planned = longest_first(load, context.machine, context.max_slices_per_core)
    return context.local_schedule(planned.cores)


@uses(COUNTERS)
def lpt_capacity(context: Context) -> Schedule:
    """LPT that also reads the speed of each core from the counters.

    UnsupportedError without the counters of core_speed().
    """
    speed = core_speed(context)
    if speed is None:
        raise UnsupportedError(f"the baseline 'lpt-capacity' needs a snapshot with {_TIMES}")
    load = _measured_load(context, "lpt-capacity")
    planned = longest_first(load, context.machine, context.max_slices_per_core, speed)
    return context.local_schedule(planned.cores)


@uses(COUNTERS)
def greedy(context: Context) -> Schedule:
    """Each slice to the least loaded worker, in the order of the episode.

    UnsupportedError without a snapshot.
    """
    return _greedy(context, _measured_load(context, "greedy"), None)


@uses(COUNTERS)
def greedy_capacity(context: Context) -> Schedule:
    """Greedy that also reads the speed of each core from the counters.

    Without the counters of core_speed() all cores have equal speeds. UnsupportedError without a
    snapshot.
    """
    return _greedy(context, _measured_load(context, "greedy-capacity"), core_speed(context))


def _greedy(context: Context, load: Float64Array, speed: Float64Array | None) -> Schedule:
    # Random ties, so that a learner cannot take a core's number for the reason.
    planned = longest_first(
        load, context.machine, context.max_slices_per_core, speed, context.order, context.rng
    )
    return context.local_schedule(planned.cores)


def _measured_load(context: Context, name: str) -> Float64Array:
    if context.snapshot is None:
        raise UnsupportedError(f"the baseline {name!r} needs the incumbent's snapshot")
    return slice_load(context.snapshot)
