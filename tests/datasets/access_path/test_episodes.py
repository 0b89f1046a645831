"""Datasets of access-path episodes, beside those of measured scans."""

import pytest

from pmoss_datasets import Recipe, collect, find_domain

ACCESS_PATH = find_domain("access-path")
ENV = {"scans": 6, "noise": 1.0}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(domain="access-path", env=ENV, episodes=6, reference_episodes=2)
    return collect(recipe, tmp_path_factory.mktemp("scans") / "data")


def test_every_step_is_the_live_one(dataset):
    assert dataset.metadata.id == "pmoss/uv-300h-access-path-noise-1-scans-6/mixed-v0"
    dataset.verify()
    assert dataset.lengths.tolist() == [6] * 6
    env = ACCESS_PATH.make_env(dataset.metadata.env_kwargs)
    for episode in dataset:
        rollout = ACCESS_PATH.rerun(env, episode.seed, episode.actions.tolist())
        assert rollout.outcome == episode.outcome
        assert rollout.total == episode.rewards.sum()
        assert episode.infos["run_time_us"].sum() / -1e3 == pytest.approx(episode.outcome)
    env.close()


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
