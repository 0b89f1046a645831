"""Rules: the paper's, those that read loads, and those that do as kernels do."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.backends import make_backend
from pmoss_env.baselines import (
    BASELINES,
    SHARED_BASELINES,
    Context,
    balance_two_levels,
    in_runs,
    longest_first,
    make_baseline,
    predicted_times,
    slice_load,
    spread_by_misses,
)
from pmoss_env.baselines.best_fit import SLACK
from pmoss_env.baselines.kernel_like import HEAVY
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_INDEX, CoTenant, Instance

machines = st.sampled_from(("toy", "milan-nps4", "skylake-x-8n")).map(load_machine)
slice_counts = st.integers(1, 300)


def test_mixed_is_the_papers_for_its_256_slices_and_between_the_others():
    machine = load_machine("skylake-x-8n")
    context = Context(machine, 256)
    mixed = make_baseline("mixed")(context)
    assert mixed == in_runs(context, 16)
    assert [len(list(run)) for _, run in itertools.groupby(mixed.nodes)] == [16] * 16
    assert list(mixed.nodes[::16]) == list(range(8)) * 2
    # 56 workers, 256 slices: 4 or 5 slices per core, as in the published files.
    assert set(np.bincount(mixed.cores)[machine.workers]) == {4, 5}
    for name, changes in (("grouped", 7), ("mixed", 15), ("spread", 255)):
        assert np.count_nonzero(np.diff(make_baseline(name)(context).nodes)) == changes
    with pytest.raises(DescriptionError, match="run = 0"):
        in_runs(context, 0)


@given(machines, slice_counts)
def test_shared_schedules_route_and_lay_out_as_in_the_paper(machine, slices):
    context = Context(machine, slices)
    shared = {name: make_baseline(name, shared=True)(context) for name in SHARED_BASELINES}
    assert {name: (s.routing, s.data) for name, s in shared.items()} == {
        "os-default": ("any", "first_touch"),
        "os-interleave": ("any", "interleaved"),
        "shared-everything": ("any", "slice"),
        "shared-nothing-node": ("node", "slice"),
    }
    assert not shared["os-default"].nodes.any()
    grouped = make_baseline("grouped")(context)
    for name in ("shared-everything", "shared-nothing-node"):
        assert np.array_equal(shared[name].nodes, grouped.nodes)
    for schedule in shared.values():
        machine.check_schedule(schedule, slices)


def test_shared_schedules_are_measured_and_never_placed():
    assert not set(SHARED_BASELINES) & set(BASELINES)
    for name in SHARED_BASELINES:
        with pytest.raises(UnsupportedError, match=f"'{name}' lets workers share slices"):
            make_baseline(name)


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


def best_makespan(load, workers):
    return min(
        np.bincount(place, load, workers).max()
        for place in itertools.product(range(workers), repeat=load.size)
    )


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6), st.integers(1, 3))
@settings(max_examples=60)
def test_lpt_is_within_grahams_bound(values, workers):
    load = np.array(values)
    machine = load_machine("toy")
    # The toy machine with fewer workers.
    kept = set(machine.workers[:workers].tolist())
    roles = tuple("worker" if core in kept else "other" for core in range(machine.cores))
    machine = replace(machine, role_of_core=roles)
    schedule = longest_first(load, machine)
    machine.check_schedule(schedule, load.size)
    makespan = np.bincount(schedule.cores, load).max()
    bound = 4 / 3 - 1 / (3 * workers)
    assert makespan <= bound * best_makespan(load, workers) + 1e-9


def test_lpt_reads_the_task_clock_or_the_queries(a_context):
    context = a_context()
    assert np.array_equal(slice_load(context.snapshot), context.snapshot.counter("task_clock_us"))
    available = context.snapshot.counters_available.copy()
    available[COUNTER_INDEX["task_clock_us"]] = False
    blind = replace(context.snapshot, counters_available=available)
    assert np.array_equal(slice_load(blind), blind.counter("queries"))


def test_capacity_aware_lpt_spares_a_slow_core_and_plain_lpt_does_not() -> None:
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=64)
    slow = int(backend.machine.workers[2])
    backend.set_instance(Instance(3, (CoTenant("busy_core", slow, 0.6),)))
    incumbent = make_baseline("spread")(Context(backend.machine, 64))
    snapshot = backend.measure(incumbent, seed=0)
    context = Context(backend.machine, 64, incumbent, snapshot)
    busy = {}
    throughput = {}
    for name in ("lpt", "lpt-capacity"):
        schedule = make_baseline(name)(context)
        busy[name] = slice_load(snapshot)[schedule.cores == slow].sum()
        throughput[name] = backend.measure(schedule, seed=0).throughput
    assert busy["lpt-capacity"] < 0.5 * busy["lpt"]
    assert throughput["lpt-capacity"] > 1.3 * throughput["lpt"]


def test_capacity_aware_lpt_needs_both_times() -> None:
    with pytest.raises(UnsupportedError, match="lpt-capacity"):
        make_baseline("lpt-capacity")(Context(load_machine("toy"), 8))


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
