from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.baselines import greedy_marginal, lpt
from pmoss_env.errors import UnsupportedError


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
