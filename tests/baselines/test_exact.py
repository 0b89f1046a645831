from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.baselines import branch_and_bound
from pmoss_env.errors import UnsupportedError


@pytest.mark.parametrize("load", ["closed", "saturated"])
@pytest.mark.parametrize("interference", ["none", "busy_core", "mixed"])
def test_it_finds_what_enumeration_finds_with_less(a_context, load, interference):
    for seed in range(2):
        context = a_context(slices=5, seed=seed, load=load, interference=interference)
        _, best = context.backend._backend.best_by_enumeration()
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
