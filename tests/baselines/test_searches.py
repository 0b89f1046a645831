"""Searches, and what they ask of measurements."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.backends import make_backend
from pmoss_env.backends.base import IncrementalBackend
from pmoss_env.baselines import (
    Measurements,
    anneal,
    answer_after,
    branch_and_bound,
    greedy_marginal,
    local_search,
    lpt,
    make_baseline,
    measured_search,
)
from pmoss_env.errors import DescriptionError, ScheduleError, UnsupportedError
from pmoss_env.types import Instance, Schedule

_seeds = st.integers(0, 2**32)


@given(
    st.sampled_from(["closed", "saturated", "saturated:mix", "open:3"]), st.integers(1, 200), _seeds
)
@settings(max_examples=40)
def test_search_is_never_worse_than_its_start_and_within_budget(a_context, load, budget, seed):
    context = a_context(slices=16, seed=seed, load=load)
    backend = context.backend
    assert isinstance(backend, IncrementalBackend)
    for start in (None, context.incumbent):
        at_start = backend.place(make_baseline("lpt")(context) if start is None else start)
        backend.calls = 0
        result = local_search(context, budget, start)
        assert result.evaluations == backend.calls <= budget
        assert result.throughput >= at_start
        assert backend.place(result.schedule) == result.throughput
        context.machine.check_schedule(result.schedule, 16)


def test_search_finds_the_optimum_of_a_small_instance(a_context):
    for seed in range(3):
        context = a_context(slices=5, seed=seed)
        _, best, _ = context.backend._backend.model.best_by_enumeration(2_000_000)
        assert local_search(context, 500).throughput == pytest.approx(best, rel=1e-6)


def test_more_budget_is_never_worse_and_a_seed_repeats(a_context):
    results = []
    for budget in (1, 10, 100, 400, 400):
        context = a_context("milan-nps4", 64, seed=4)
        results.append(local_search(replace(context, rng=np.random.default_rng(8)), budget))
    throughputs = [result.throughput for result in results]
    assert throughputs == sorted(throughputs) and throughputs[0] < throughputs[-1]
    assert results[-1] == results[-2]


@given(st.integers(1, 150), st.integers(0, 2**32))
@settings(max_examples=30)
def test_it_returns_the_best_schedule_seen_and_stays_within_budget(a_context, budget, seed):
    context = a_context(slices=16, seed=seed)
    start = context.backend.place(make_baseline("lpt")(context))
    context.backend.calls = 0
    result = anneal(context, budget)
    assert result.evaluations == context.backend.calls <= budget
    assert result.throughput >= start
    assert context.backend.place(result.schedule) == result.throughput


def test_what_annealing_cannot_do_is_refused(a_context):
    with pytest.raises(DescriptionError, match="budget = 0"):
        anneal(a_context(), 0)
    with pytest.raises(UnsupportedError, match="simulated annealing needs a backend"):
        anneal(replace(a_context(), backend=None))


@pytest.mark.parametrize("load", ["closed", "saturated"])
@pytest.mark.parametrize("interference", ["none", "busy_core", "mixed"])
def test_it_finds_what_enumeration_finds_with_less(a_context, load, interference):
    for seed in range(2):
        context = a_context(slices=5, seed=seed, load=load, interference=interference)
        _, best, _ = context.backend._backend.model.best_by_enumeration(2_000_000)
        context.backend.calls = 0
        result = branch_and_bound(context)
        assert result.throughput == pytest.approx(best, rel=1e-6)
        assert result.evaluations == context.backend.calls < 6**5 / 2


def test_it_obeys_the_constraint(a_context):
    context = a_context(slices=6, seed=1, max_slices_per_core=1)
    result = branch_and_bound(context)
    assert np.bincount(result.schedule.cores).max() == 1
    free = branch_and_bound(replace(context, max_slices_per_core=None))
    assert free.throughput >= result.throughput


def test_large_instances_are_refused_before_any_work(a_context):
    context = a_context(slices=9)
    with pytest.raises(UnsupportedError, match=r"9 slices on 6 workers have 6\^9 schedules"):
        branch_and_bound(context)
    assert context.backend.calls == 0
    # More than a float holds.
    with pytest.raises(UnsupportedError, match=r"6\^500 schedules"):
        branch_and_bound(a_context(slices=500))


def test_it_ends_where_no_single_move_pays(a_context):
    context = a_context(slices=10, seed=5)
    result = greedy_marginal(context, 100_000)
    assert result.throughput >= context.backend.place(lpt(context))
    assert result.evaluations < 100_000
    context.backend.place(result.schedule)
    for slice_ in range(10):
        assert np.nanmax(context.backend.marginal(slice_)) <= result.throughput


def test_a_missing_snapshot_is_named(a_context):
    with pytest.raises(UnsupportedError, match="snapshot"):
        greedy_marginal(replace(a_context(), snapshot=None))


def searched(a_context, budget, noise=0.0, machine="toy", slices=16, **more):
    context = a_context(machine, slices, seed=4, **more)
    asked = Measurements(context.backend, budget, noise=noise, seed=(7, 3))
    context = replace(context, measurements=asked, rng=np.random.default_rng(1))
    start = lpt(context)
    return measured_search(context, start), asked, start, context


def test_a_smaller_budget_gives_the_same_answers_so_far(a_context):
    long, *_ = searched(a_context, 200)
    for budget in (0, 1, 3, 10, 77):
        short, asked, start, _ = searched(a_context, budget)
        assert asked.used == budget
        assert short == [answer for answer in long if answer.used <= budget]
    assert answer_after(long, 0) == start


def test_every_evaluation_is_another_schedule_and_tiny_instances_end(a_context):
    asked = searched(a_context, 10_000, slices=3)[1]
    assert asked.used <= asked._backend.machine.workers.size**3 < 10_000


def test_what_lacks_is_named(a_context):
    context = a_context()
    with pytest.raises(UnsupportedError, match="needs measurements"):
        measured_search(context, lpt(context))


class Whole:
    """A backend that can only measure."""

    incremental = False

    def __init__(self, backend):
        self._backend = backend
        self.seeds = []

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def measure(self, schedule, *, seed):
        self.seeds.append(seed)
        return self._backend.measure(schedule, seed=seed)


@pytest.fixture
def backend():
    made = make_backend("analytic", machine="toy", workload="ycsb-a", slices=12)
    made.set_instance(Instance(3))
    return made


def schedules(backend, count=20):
    """Schedules of which each differs a little from the one before, and now and then all."""
    rng = np.random.default_rng(0)
    machine = backend.machine
    cores = rng.choice(machine.workers, 12)
    for number in range(count):
        if number % 7 == 6:
            cores = rng.choice(machine.workers, 12)
        cores = cores.copy()
        cores[rng.integers(12, size=2)] = rng.choice(machine.workers, 2)
        yield machine.local_schedule(cores.astype(np.int32))


def test_readings_without_noise_are_those_of_the_backend(backend):
    asked = Measurements(backend, 100)
    other = make_backend("analytic", machine="toy", workload="ycsb-a", slices=12)
    other.set_instance(Instance(3))
    for schedule in schedules(backend):
        assert asked.throughput(schedule) == other.place(schedule)
        assert np.array_equal(
            asked.snapshot().slice_counters, other.measure(schedule, seed=0).slice_counters
        )
        far = Schedule(schedule.cores, 1 - schedule.nodes)
        assert asked.throughput(far) == other.place(far)
    assert asked.used == 40 and asked.left == 60


def test_a_backend_that_is_not_incremental_is_measured_once_per_evaluation(backend):
    whole = Whole(backend)
    asked = Measurements(whole, 3, seed=(10, 1))
    for schedule in schedules(backend, 3):
        assert asked.throughput(schedule) == asked.snapshot().throughput
    assert whole.seeds == [10, 11, 12]


def test_the_budget_ends(backend):
    (schedule,) = schedules(backend, 1)
    with pytest.raises(DescriptionError, match="measurements = -1"):
        Measurements(backend, -1)
    asked = Measurements(backend, 1)
    with pytest.raises(UnsupportedError, match="no schedule was measured"):
        asked.snapshot()
    assert asked.measure(schedule).throughput > 0
    with pytest.raises(UnsupportedError, match="all 1 measurements are used up"):
        asked.throughput(schedule)


def test_what_cannot_run_costs_nothing_and_leaves_no_reading(backend):
    first, second = schedules(backend, 2)
    asked = Measurements(backend, 3)
    asked.throughput(first)
    with pytest.raises(ScheduleError):
        asked.throughput(Schedule(first.cores[:4], first.nodes[:4]))
    assert asked.used == 1
    with pytest.raises(UnsupportedError, match="no schedule was measured"):
        asked.snapshot()
    assert asked.throughput(second) == backend.place(second)


def test_every_reading_has_noise_of_its_own_and_a_seed_repeats_it(backend):
    (schedule,) = schedules(backend, 1)
    true = backend.place(schedule)
    readings = []
    for _ in range(2):
        asked = Measurements(backend, 200, noise=1.0, seed=(5, 3))
        readings.append([asked.throughput(schedule) for _ in range(200)])
    assert readings[0] == readings[1] and len(set(readings[0])) == 200
    assert np.mean(readings[0]) == pytest.approx(true, rel=0.005)
    assert np.std(readings[0]) == pytest.approx(0.015 * true, rel=0.2)
    snapshot = asked.snapshot()
    assert snapshot.throughput == pytest.approx(readings[0][-1])
    assert snapshot is asked.snapshot()
