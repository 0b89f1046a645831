"""Statistics of scores: means, bootstrap intervals, and those of rliable beside them."""

import numpy as np
import pytest
from rliable import metrics
from scipy.stats import bootstrap, trim_mean, ttest_1samp

from pmoss_datasets.evaluation import (
    Difference,
    EpisodeResult,
    aggregate,
    bootstrap_interval,
    of_means,
    paired_difference,
)
from pmoss_datasets.evaluation.scores import (
    REPETITIONS,
    STATISTICS,
    probability_of_improvement,
    two_level_bootstrap,
)
from pmoss_datasets.evaluation.statistics import spearman, student


def a_row(policy, seed, episode, score, throughput=1.0):
    return EpisodeResult(policy, seed, episode, 0, 1.0, throughput, score, 0.0, 1.0, 1, (1,), 0.5)


def test_aggregate_averages_episodes_then_seeds():
    result = aggregate(
        [
            a_row("a", 0, 0, 10.0, 2.0),
            a_row("a", 0, 1, 30.0, 4.0),
            a_row("a", 0, 2, 50.0, 6.0),
            a_row("a", 1, 0, 50.0, 8.0),
            a_row("b", 0, 0, None),
        ]
    )
    a, b = result
    assert (a.policy, a.seeds, a.episodes, a.illegal_actions) == ("a", 2, 4, 4)
    assert (a.score, a.throughput) == (40.0, 6.0)
    assert a.score_std == pytest.approx(np.std([30, 50], ddof=1))
    assert a.score_low is None and a.throughput_high is None  # too few seeds
    assert (b.score, b.score_low, b.score_std, b.throughput_high) == (None,) * 4
    assert b.throughput == 1.0


def test_episodes_of_one_policy_have_students_interval():
    scores = [10.0, 30.0, 50.0, 40.0, 20.0]
    rows = [a_row("a", i // 3, i % 3, score) for i, score in enumerate(scores)]
    [four] = aggregate(rows[:4], trainings=False)
    assert four.score_low is None
    [five] = aggregate(rows, trainings=False)
    mean = student(np.array(scores))
    assert (five.score_low, five.score_high) == (mean.low, mean.high)
    # Where seeds have different numbers of scores, the mean is that of all episodes, too.
    [lacking] = aggregate([*rows, a_row("a", 2, 0, 90.0), a_row("a", 2, 1, None)], trainings=False)
    assert lacking.score == pytest.approx(np.mean([*scores, 90.0]))
    assert lacking.score == pytest.approx((lacking.score_low + lacking.score_high) / 2)
    [trained] = aggregate(rows)
    assert trained.score_low is None


def test_bootstrap_interval_repeats_and_narrows():
    values = np.random.default_rng(0).normal(10, 2, size=40)
    groups = [np.array([value]) for value in values]
    low, high = bootstrap_interval(groups)
    assert (low, high) == bootstrap_interval(groups)
    assert low < values.mean() < high
    # The normal approximation of the same interval.
    assert high - low == pytest.approx(2 * 1.96 * values.std() / np.sqrt(40), rel=0.1)
    few = bootstrap_interval(groups[:5])
    assert few[1] - few[0] > high - low
    assert bootstrap_interval(groups[:4]) == (None, None)


def test_paired_differences_tell_more_than_both_means():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 12, size=100)
    mine = hard + 1 + rng.normal(0, 2, size=(3, 100))
    difference = paired_difference(mine - hard)
    assert 0 < difference.low < difference.value < difference.high < 2
    assert difference.value == pytest.approx((mine - hard).mean())
    assert difference == paired_difference(mine - hard)
    # Seeds that differ widen the interval: few seeds are little evidence.
    apart = paired_difference(mine - hard + np.array([[-3.0], [0.0], [3.0]]))
    assert apart.low < 0 < apart.high
    assert paired_difference(np.array([[4.0]])) == Difference(4.0, None, None)


def test_the_interval_of_one_seed_is_students() -> None:
    values = np.random.default_rng(0).normal(3, 2, 5)
    low, high = ttest_1samp(values, 0.0).confidence_interval()
    alone = paired_difference(values[None])
    assert (alone.low, alone.high) == pytest.approx((low, high))
    assert student(np.full(4, 7.0)) == Difference(7.0, 7.0, 7.0)


def test_a_statistic_of_means_draws_the_episodes_of_all_values_together():
    hard = np.array([1.0, 5.0, 2.0, 9.0, 4.0])
    difference = of_means(np.stack([2 * hard, hard]), lambda means: means[0] / means[1])
    assert (difference.value, difference.low, difference.high) == pytest.approx((2, 2, 2))
    difference = of_means(np.stack([hard, hard[::-1]]), lambda means: means[0] / means[1])
    assert difference.value == 1 and difference.low < 1 < difference.high
    assert of_means(np.array([[4.0]]), lambda means: means[0]) == Difference(4.0, None, None)


def test_spearman_is_the_correlation_of_ranks():
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert spearman(x, x**3) == pytest.approx(1.0)
    assert spearman(x, -x) == pytest.approx(-1.0)
    assert spearman(x, np.array([1.0, 3.0, 2.0, 4.0])) == pytest.approx(0.8)
    assert spearman(x, np.array([1.0, 1.0, 2.0, 2.0])) == pytest.approx(0.894427, abs=1e-6)
    assert np.isnan(spearman(x, np.ones(4)))
    # What differs by rounding alone shares a rank.
    close = np.array([1.0, 1.0 + 1e-15, 2.0, 3.0])
    assert spearman(close, close**2) == pytest.approx(1.0)


SHAPES = ((1, 5), (3, 5), (17, 2), (4, 8))


@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_are_those_of_rliable(shape: tuple[int, int]) -> None:
    runs = np.random.default_rng(sum(shape)).normal(50.0, 20.0, shape)
    # rliable has the runs first.
    theirs = {
        "iqm": metrics.aggregate_iqm,
        "mean": metrics.aggregate_mean,
    }
    for name, statistic in STATISTICS.items():
        assert float(statistic([*runs])) == pytest.approx(theirs[name](runs.T), rel=1e-12)
    assert float(STATISTICS["iqm"]([*runs])) == pytest.approx(trim_mean(runs.ravel(), 0.25))


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
    mine = two_level_bootstrap([*runs[:, :, None]], STATISTICS["iqm"])
    # Several samples, each drawn by itself: the strata.
    theirs = bootstrap(
        tuple(runs),
        lambda *tasks: float(STATISTICS["iqm"](tasks)),
        n_resamples=REPETITIONS,
        method="percentile",
        vectorized=False,
        rng=np.random.default_rng(0),
    ).confidence_interval
    # Both are drawn by chance, with fixed seeds: the ends agree to a part of the width.
    width = theirs.high - theirs.low
    assert mine.low == pytest.approx(theirs.low, abs=0.1 * width)
    assert mine.high == pytest.approx(theirs.high, abs=0.1 * width)
