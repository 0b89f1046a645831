from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.baselines import balance_two_levels, make_baseline, spread_by_misses
from pmoss_env.baselines.kernel_like import HEAVY
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import COUNTER_INDEX


@pytest.mark.parametrize("policy", [balance_two_levels, spread_by_misses])
def test_what_is_balanced_stays(a_context, policy):
    context = a_context("skylake-x-8n", 56, interference="none")
    even = context.snapshot.slice_counters.copy()
    even[:] = even.mean(axis=0)
    cores = context.machine.workers.copy()
    context = replace(
        context,
        incumbent=context.machine.local_schedule(cores),
        snapshot=replace(context.snapshot, slice_counters=even),
    )
    assert np.array_equal(policy(context).cores, cores)


def test_only_slices_above_the_threshold_move(a_context):
    context = a_context("milan-nps4", 256, seed=2)
    schedule = spread_by_misses(context)
    misses = context.snapshot.counter("llc_misses")
    moved = schedule.cores != context.incumbent.cores
    assert moved.any()
    assert np.all(misses[moved] > HEAVY * misses.mean())


def test_what_is_missing_is_named(a_context):
    context = a_context()
    for name in ("two-level", "counter-threshold"):
        with pytest.raises(UnsupportedError, match=f"'{name}' needs an incumbent"):
            make_baseline(name)(replace(context, snapshot=None))
    available = context.snapshot.counters_available.copy()
    available[COUNTER_INDEX["llc_misses"]] = False
    blind = replace(context.snapshot, counters_available=available)
    with pytest.raises(UnsupportedError, match="llc_misses"):
        spread_by_misses(replace(context, snapshot=blind))
