"""Estimates of policies' values beside a truth that is no estimate."""

import gymnasium
import numpy as np
import pytest

from pmoss_datasets import Behaviour, Recipe, collect

pytest.importorskip("torch")

from pmoss_benchmarks.spatial.off_policy import QUICK, run_off_policy, summarise
from pmoss_benchmarks.spatial.off_policy.estimators import (
    DirectModel,
    NetworkOptions,
    one_step,
    whole_episode,
)
from pmoss_benchmarks.spatial.off_policy.logged import FEATURES, POLICIES, log

SMALL = NetworkOptions(width=8, updates=20, rounds=2, updates_per_round=5)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(
        env={"machine": "toy", "slices": 6, "interference": "busy_core"},
        episodes=8,
        tier="logged",
        behaviours=(Behaviour("random"),),
        reference_episodes=0,
        counterfactuals=True,
    )
    return collect(recipe, tmp_path_factory.mktemp("logged") / "dataset")


def uniform(features):
    return np.full(features.shape[:-1], 1 / features.shape[-2])


def test_the_truth_is_what_the_environment_pays_for_every_choice(dataset):
    data = log(dataset)
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **dataset.metadata.env_kwargs)
    tiles = dataset.machine.tile_of_core[dataset.machine.workers]
    for worker, tile in enumerate(tiles):
        env.reset(seed=dataset[1].seed)
        for action in dataset[1].actions[:3]:
            env.step(int(action))
        _, paid, *_ = env.step(int(tile))
        assert data.truth[1, 3, worker] == pytest.approx(paid, abs=1e-4)
    chosen = np.take_along_axis(data.truth, data.chosen[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(chosen, data.rewards, atol=1e-4)
    assert data.features.shape == (8, 6, 6, len(FEATURES)) and np.isfinite(data.features).all()


def test_the_behaviours_own_value_is_the_mean_of_the_data(dataset):
    data = log(dataset)
    model = DirectModel(data, SMALL, seed=0)
    found = one_step(data, uniform, model)
    # The stored chance is a float32.
    assert found["importance sampling"] == pytest.approx(data.rewards.mean(), rel=1e-5)
    assert found["self-normalised"] == pytest.approx(data.rewards.mean(), rel=1e-5)
    found = whole_episode(data, uniform, SMALL, seed=0)
    mean = data.rewards.sum(axis=1).mean()
    assert found["importance sampling, per decision"] == pytest.approx(mean, rel=1e-5)
    assert found["self-normalised, per decision"] == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("name", POLICIES)
def test_policies_are_chances(dataset, name):
    shares = POLICIES[name](log(dataset).features)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=2), 1)


def test_a_report_is_the_same_again():
    from dataclasses import replace

    plan = replace(QUICK, episodes=4, seeds=(0,), networks=SMALL)
    one, two = (run_off_policy(plan, lambda *_: None) for _ in range(2))
    assert one == two
    assert len(one) == len(POLICIES) * 8
    assert len(summarise(one)) == 8
