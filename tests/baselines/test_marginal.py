from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.baselines import greedy_marginal, make_baseline
from pmoss_env.errors import UnsupportedError


@pytest.mark.parametrize("budget", [1, 7, 8, 60, 1000])
def test_it_counts_a_look_as_one_evaluation_per_worker(a_context, budget):
    context = a_context(slices=16, seed=3)
    start = context.backend.place(make_baseline("lpt")(context))
    result = greedy_marginal(context, budget)
    assert 1 <= result.evaluations <= budget
    assert result.throughput >= start
    assert context.backend.place(result.schedule) == result.throughput


def test_it_ends_where_no_single_move_pays(a_context):
    context = a_context(slices=10, seed=5)
    cores = np.full(10, context.machine.workers[0], dtype=np.int32)
    start = context.machine.local_schedule(cores)
    result = greedy_marginal(context, 100_000, start)
    assert result.throughput > context.backend.place(start)
    assert result.evaluations < 100_000
    context.backend.place(result.schedule)
    for slice_ in range(10):
        assert np.nanmax(context.backend.marginal(slice_)) <= result.throughput


def test_a_missing_snapshot_is_named(a_context):
    with pytest.raises(UnsupportedError, match="snapshot"):
        greedy_marginal(replace(a_context(), snapshot=None))
