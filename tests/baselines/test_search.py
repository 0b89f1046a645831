from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.backends.base import IncrementalBackend
from pmoss_env.baselines import local_search, make_baseline

seeds = st.integers(0, 2**32)


@given(
    st.sampled_from(["closed", "saturated", "saturated:mix", "open:3"]), st.integers(1, 200), seeds
)
@settings(max_examples=40)
def test_search_is_never_worse_than_its_start_and_within_budget(a_context, load, budget, seed):
    context = a_context(slices=16, seed=seed, load=load)
    backend = context.backend
    assert isinstance(backend, IncrementalBackend)
    for start in (None, context.incumbent):
        begin = make_baseline("lpt")(context) if start is None else start
        at_start = backend.place(begin)
        backend.calls = 0
        result = local_search(context, budget, start)
        assert result.evaluations == backend.calls <= budget
        assert result.throughput >= at_start
        assert backend.place(result.schedule) == result.throughput
        context.machine.check_schedule(result.schedule, 16)


def test_search_finds_the_optimum_of_a_small_instance(a_context):
    for seed in range(3):
        context = a_context(slices=5, seed=seed)
        _, best = context.backend._backend.best_by_enumeration()
        assert local_search(context, 500).throughput == pytest.approx(best, rel=1e-6)


def test_more_budget_is_never_worse_and_a_seed_repeats(a_context):
    results = []
    for budget in (1, 10, 100, 400, 400):
        context = a_context("milan-nps4", 64, seed=4)
        results.append(local_search(replace(context, rng=np.random.default_rng(8)), budget))
    throughputs = [result.throughput for result in results]
    assert throughputs == sorted(throughputs)
    assert throughputs[0] < throughputs[-1]
    assert results[-1] == results[-2]
