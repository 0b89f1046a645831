import numpy as np
import pytest

from pmoss_datasets.evaluation import EpisodeResult
from pmoss_datasets.evaluation.scores import (
    mean,
    runs_of,
    stratified_bootstrap,
)
from pmoss_env.errors import DescriptionError


def row(policy: str, seed: int, score: float | None, episode: int = 0) -> EpisodeResult:
    return EpisodeResult(policy, seed, episode, 0, 1.0, 1.0, score, 0.0, 1.0, 0, (0,), 0.0)


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
