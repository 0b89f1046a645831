import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_benchmarks.offline.scores import (
    STATISTICS,
    interquartile_mean,
    mean,
    runs_of,
    stratified_bootstrap,
)
from pmoss_datasets.evaluation import EpisodeResult
from pmoss_env.errors import DescriptionError


def row(policy: str, seed: int, score: float | None, episode: int = 0) -> EpisodeResult:
    return EpisodeResult(policy, seed, episode, 0, 1.0, 1.0, score, 0.0, 1.0, 0, (0,), 0.0)


@given(st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=40))
def test_outliers_of_a_quarter_do_not_move_the_interquartile_mean(values: list[float]) -> None:
    ordered = np.sort(np.array(values))
    cut = ordered.size // 4
    wild = ordered.copy()
    wild[:cut], wild[ordered.size - cut :] = -1e9, 1e9
    assert interquartile_mean(wild[None]) == interquartile_mean(ordered[None])


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(sorted(STATISTICS)), st.integers(0, 2**16))
def test_intervals_hold_the_value_of_equal_runs_and_repeat(name: str, seed: int) -> None:
    equal = np.full((3, 5), 7.0)
    interval = stratified_bootstrap(equal, STATISTICS[name])
    assert (interval.value, interval.low, interval.high) == (7.0, 7.0, 7.0)
    runs = np.random.default_rng(seed).normal(size=(3, 5))
    first, again = (stratified_bootstrap(runs, STATISTICS[name]) for _ in range(2))
    assert first == again
    assert first.low is not None and first.high is not None
    assert first.low <= first.high


def test_one_run_has_no_interval_and_nothing_has_no_score() -> None:
    assert stratified_bootstrap(np.array([[3.0]]), mean).low is None
    with pytest.raises(DescriptionError, match="finite"):
        stratified_bootstrap(np.array([[np.nan, 1.0]]), mean)
    with pytest.raises(DescriptionError, match="shape"):
        stratified_bootstrap(np.zeros((0, 0)), mean)


def test_runs_are_means_over_episodes_and_policies_that_missed_a_task_are_left_out() -> None:
    rows = {
        "easy": [row("a", 1, 2.0), row("a", 1, 4.0, 1), row("a", 2, 5.0), row("b", 1, 1.0)],
        "hard": [row("a", 2, 7.0), row("a", 1, 6.0)],
    }
    runs = runs_of(rows)
    assert list(runs) == ["a"]
    assert runs["a"].tolist() == [[3.0, 5.0], [6.0, 7.0]]
