"""Selection curves: the bandit finds the best policy, and methods draw from their ranges."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import pmoss_agents
from pmoss_agents.configs import read_range, read_ranges
from pmoss_benchmarks.functions import selection
from pmoss_benchmarks.functions.selection import (
    Settings,
    drawn_settings,
    measure,
    selection_curve,
)
from pmoss_benchmarks.study import Run
from pmoss_datasets import load
from pmoss_datasets.suite import TOY
from pmoss_env.errors import UnknownNameError
from tests.replays import recheck


def test_more_pulls_find_the_best_of_noisy_policies() -> None:
    rng = np.random.default_rng(0)
    scores = np.linspace(20, 90, 8)[:, None] + 15 * rng.standard_normal((8, 50))
    true = scores.mean(axis=1)
    mean, low, high = curve = selection_curve(scores, trials=200)
    assert mean.shape == (200,)
    # The first pull keeps whatever was drawn first; in the end it is nearly always the best one.
    assert abs(mean[0] - true.mean()) < 6
    assert mean[-1] > true.max() - 2
    assert (low <= high).all()
    assert (selection_curve(scores, trials=200) == curve).all()


@pytest.mark.parametrize("agent", read_ranges())
def test_every_range_holds_settings_that_the_agent_takes(agent: str) -> None:
    drawn = drawn_settings(agent, TOY, 5)
    assert drawn == drawn_settings(agent, TOY, 5)
    assert len({str(config) for config in drawn}) == 5
    for settings in drawn:
        pmoss_agents.make(agent, **settings)
    for values in read_range(agent).values.values():
        assert len(set(values)) > 1


def test_a_method_without_a_range_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'dqn'"):
        read_range("dqn")


def test_policies_of_a_range_are_trained_and_kept_by_pulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "build", lambda id_, *_: load(id_))
    settings = Settings(TOY, policies=2, episodes=2, budget=20, changes={"updates": 2})
    run = Run(settings, tmp_path, tmp_path, tmp_path)
    row = measure(run, {"agent": "percentile-bc"})
    assert np.shape(row["scores"]) == (2, 2)
    assert [point["pulls"] for point in row["curve"]] == list(selection.SHOWN)
    assert all(drawn["updates"] == 2 for drawn in row["drawn"])
    assert recheck(selection, run, row) == []
    row["scores"][0][0] += 20
    assert recheck(selection, run, row) != []
