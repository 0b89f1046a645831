"""Selection curves: the bandit finds the best policy, and methods draw from their ranges."""

import numpy as np
import pytest

pytest.importorskip("torch")

import pmoss_agents
from pmoss_agents.configs import read_range, read_ranges
from pmoss_benchmarks.offline.selection import (
    SelectionCell,
    SelectionOptions,
    drawn_settings,
    measure_cell,
    selection_curve,
)
from pmoss_datasets.suite import TOY
from pmoss_env.errors import DescriptionError, UnknownNameError


def test_more_pulls_find_the_best_of_noisy_policies():
    rng = np.random.default_rng(0)
    scores = np.linspace(20, 90, 8)[:, None] + 15 * rng.standard_normal((8, 50))
    true = scores.mean(axis=1)
    curve = selection_curve(scores, trials=200)
    assert curve.mean.shape == (200,)
    # The first pull keeps whatever was drawn first; in the end it is nearly always the best one.
    assert abs(curve.mean[0] - true.mean()) < 6
    assert curve.mean[-1] > true.max() - 2
    assert (curve.low <= curve.high).all()
    again = selection_curve(scores, trials=200)
    assert (again.mean == curve.mean).all()


def test_one_policy_is_kept_from_the_first_pull_on():
    curve = selection_curve(np.array([[10.0, 30.0]]), trials=5, pulls=9)
    assert (curve.mean == 20.0).all()


@pytest.mark.parametrize("scores", [np.zeros((0, 3)), np.zeros(3), np.array([[np.nan]])])
def test_scores_that_are_none_are_refused(scores):
    with pytest.raises(DescriptionError, match="scores: shape"):
        selection_curve(scores)


@pytest.mark.parametrize("agent", read_ranges())
def test_every_range_holds_settings_that_the_agent_takes(agent):
    drawn = drawn_settings(agent, TOY, 5)
    assert drawn == drawn_settings(agent, TOY, 5)
    assert len({str(one) for one in drawn}) == 5
    for settings in drawn:
        pmoss_agents.make(agent, **settings)
    for values in read_range(agent).values.values():
        assert len(set(values)) > 1


def test_a_method_without_a_range_is_refused():
    with pytest.raises(UnknownNameError, match="'dqn'"):
        read_range("dqn")


def test_policies_of_a_range_are_trained_and_kept_by_pulls(tmp_path, monkeypatch):
    committed = drawn_settings("surrogate", TOY, 2)
    small = {"members": 1, "updates": 2, "width": 8, "features": 4, "demands": 2, "rounds": 1}
    monkeypatch.setattr(
        "pmoss_benchmarks.offline.selection.drawn_settings",
        lambda agent, task, count: [{**one, **small} for one in committed],
    )
    options = SelectionOptions(TOY, policies=2, episodes=2, budget=20, folder=str(tmp_path))
    monkeypatch.setattr("pmoss_benchmarks.offline.selection.build", _shipped)
    found = measure_cell(options, SelectionCell("surrogate"))
    assert np.shape(found["scores"]) == (2, 2)
    assert len(found["curve"]["mean"]) == 200


def _shipped(id_, *_, **__):
    from pmoss_datasets import load

    return load(id_)
