from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.baselines import anneal, make_baseline
from pmoss_env.errors import DescriptionError, UnsupportedError


@given(st.integers(1, 150), st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_it_returns_the_best_schedule_seen_and_stays_within_budget(a_context, budget, seed):
    context = a_context(slices=16, seed=seed)
    start = context.backend.place(make_baseline("lpt")(context))
    context.backend.calls = 0
    result = anneal(context, budget)
    assert result.evaluations == context.backend.calls <= budget
    assert result.throughput >= start
    assert context.backend.place(result.schedule) == result.throughput


def test_a_seed_repeats_and_one_slice_ends(a_context):
    context = a_context("milan-nps4", 64, seed=4)
    first, second = (anneal(replace(context, rng=np.random.default_rng(8)), 300) for _ in range(2))
    assert first == second
    single = a_context(slices=1)
    assert anneal(single, 50).evaluations <= 50


def test_what_it_cannot_do_is_refused(a_context):
    with pytest.raises(DescriptionError, match="budget = 0"):
        anneal(a_context(), 0)
    with pytest.raises(UnsupportedError, match="simulated annealing needs a backend"):
        anneal(replace(a_context(), backend=None))
