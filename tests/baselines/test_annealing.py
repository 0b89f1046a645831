from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.baselines import anneal, make_baseline
from pmoss_env.errors import DescriptionError, UnsupportedError


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


def test_what_it_cannot_do_is_refused(a_context):
    with pytest.raises(DescriptionError, match="budget = 0"):
        anneal(a_context(), 0)
    with pytest.raises(UnsupportedError, match="simulated annealing needs a backend"):
        anneal(replace(a_context(), backend=None))
