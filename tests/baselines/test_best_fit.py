from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.baselines import Context, make_baseline, predicted_times, slice_load
from pmoss_env.baselines.best_fit import SLACK
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_INDEX


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("machine", ["toy", "milan-nps4"])
def test_each_slice_goes_on_the_fullest_core_that_it_does_not_overfill(a_context, machine, ordered):
    overfilled = 0
    for seed in range(4):
        context = a_context(machine, slices=40, seed=seed)
        order = np.argsort(-slice_load(context.snapshot), kind="stable")
        if ordered:
            order = np.random.default_rng(seed).permutation(40).astype(np.int32)
            context = replace(context, order=order)
        schedule = make_baseline("best-fit")(context)
        workers = context.machine.workers
        times = predicted_times(context)
        full = (1 + SLACK) / (1 / times.sum(axis=0)).sum()
        busy = dict.fromkeys(workers.tolist(), 0.0)
        for slice_ in order:
            ends = {core: busy[core] + times[slice_, i] for i, core in enumerate(busy)}
            fitting = [end for end in ends.values() if end <= full]
            overfilled += not fitting
            chosen = int(schedule.cores[slice_])
            assert ends[chosen] == (max(fitting) if fitting else min(ends.values()))
            busy[chosen] = ends[chosen]
    assert overfilled > 0


def test_without_the_counters_all_cores_are_alike(a_context):
    context = a_context(slices=20)
    available = context.snapshot.counters_available.copy()
    for name in ("cycles", "elapsed_us"):
        available[COUNTER_INDEX[name]] = False
    blind = replace(context, snapshot=replace(context.snapshot, counters_available=available))
    times = predicted_times(blind)
    assert np.array_equal(times, np.repeat(slice_load(context.snapshot)[:, None], 6, axis=1))
    context.machine.check_schedule(make_baseline("best-fit")(blind), 20)


def test_noise_and_silence_give_no_negative_or_endless_times(a_context):
    context = a_context(slices=20)
    counters = context.snapshot.slice_counters.copy()
    counters[:, COUNTER_INDEX["cycles_mem_any"]] = 2 * counters[:, COUNTER_INDEX["cycles"]]
    for values in (counters, np.zeros_like(counters)):
        odd = replace(context, snapshot=replace(context.snapshot, slice_counters=values))
        times = predicted_times(odd)
        assert np.isfinite(times).all()
        assert times.min() >= 0
        with np.errstate(all="raise"):
            context.machine.check_schedule(make_baseline("best-fit")(odd), 20)


def test_it_needs_an_incumbent_and_its_snapshot(a_context):
    with pytest.raises(UnsupportedError, match="'best-fit' needs an incumbent"):
        make_baseline("best-fit")(Context(load_machine("toy"), 3))
    with pytest.raises(UnsupportedError, match="'best-fit' needs an incumbent"):
        make_baseline("best-fit")(replace(a_context(), snapshot=None))
