"""Our statistics beside those of rliable, whose authors proposed them."""

import numpy as np
import pytest
from rliable import metrics
from scipy.stats import bootstrap, trim_mean

from pmoss_datasets.evaluation.scores import (
    REPETITIONS,
    STATISTICS,
    probability_of_improvement,
    stratified_bootstrap,
)

SHAPES = ((1, 5), (3, 5), (17, 2), (4, 8))


@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_are_those_of_rliable(shape: tuple[int, int]) -> None:
    runs = np.random.default_rng(sum(shape)).normal(50.0, 20.0, shape)
    # rliable has the runs first.
    theirs = {
        "iqm": metrics.aggregate_iqm,
        "median": metrics.aggregate_median,
        "mean": metrics.aggregate_mean,
    }
    for name, statistic in STATISTICS.items():
        assert float(statistic(runs)) == pytest.approx(theirs[name](runs.T), rel=1e-12)
    assert float(STATISTICS["iqm"](runs)) == pytest.approx(trim_mean(runs.ravel(), 0.25))


@pytest.mark.parametrize("runs", [(5, 5), (3, 7)])
def test_the_probability_of_improvement_is_that_of_rliable(runs: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(runs))
    # Whole numbers: some are equal.
    mine, theirs = (rng.integers(0, 8, (4, count)).astype(float) for count in runs)
    expected = metrics.probability_of_improvement(mine.T, theirs.T)
    assert probability_of_improvement(mine, theirs) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shape", [(1, 12), (5, 10)])
def test_intervals_are_those_of_a_stratified_bootstrap_of_scipy(shape: tuple[int, int]) -> None:
    """Not rliable.library's: its dependency arch cannot be imported beside pandas 3."""
    runs = np.random.default_rng(1).normal(50.0, 20.0, shape)
    mine = stratified_bootstrap(runs, STATISTICS["iqm"])
    # Several samples, each drawn by itself: the strata.
    theirs = bootstrap(
        tuple(runs),
        lambda *tasks: float(STATISTICS["iqm"](np.array(tasks))),
        n_resamples=REPETITIONS,
        method="percentile",
        vectorized=False,
        rng=np.random.default_rng(0),
    ).confidence_interval
    # Both are drawn by chance, with fixed seeds: the ends agree to a part of the width.
    width = theirs.high - theirs.low
    assert mine.low == pytest.approx(theirs.low, abs=0.1 * width)
    assert mine.high == pytest.approx(theirs.high, abs=0.1 * width)
