"""Datasets of access-path episodes, beside those of measured scans."""

import pytest

from pmoss_datasets import Recipe, collect, find_domain
from tests.datasets.live import check_steps

ACCESS_PATH = find_domain("access-path")
ENV = {"scans": 6, "noise": 1.0}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(domain="access-path", env=ENV, episodes=6, reference_episodes=2)
    return collect(recipe, tmp_path_factory.mktemp("scans") / "data")


def test_every_step_is_the_live_one(dataset):
    assert dataset.metadata.id == "pmoss/uv-300h-access-path-noise-1-scans-6/mixed-v0"
    assert dataset.lengths.tolist() == [6] * 6
    for episode, _ in check_steps(ACCESS_PATH, dataset):
        assert episode.infos["run_time_us"].sum() / -1e3 == pytest.approx(episode.outcome)


def test_nothing_beats_the_oracle():
    env = ACCESS_PATH.make_env({"scans": 6})
    judge = ACCESS_PATH.judge(env)
    low, high = judge.reference(5, budget=1, draws=10)
    outcomes = {
        name: judge.outcome(ACCESS_PATH.play(env, ACCESS_PATH.policy(name), 5, judge))
        for name in ACCESS_PATH.policies()
    }
    assert outcomes["oracle"] == high == max(outcomes.values())
    assert min(outcomes["always-cpu"], outcomes["always-offload"]) <= low < high
    judge.close()
    env.close()
