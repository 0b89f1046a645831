"""Estimates of policies' values beside a truth that is no estimate."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from pmoss_datasets import Behaviour, Dataset, Recipe, collect

pytest.importorskip("torch")

from pmoss_benchmarks.functions import off_policy
from pmoss_benchmarks.functions.off_policy import (
    FEATURES,
    NETWORKS,
    POLICIES,
    TABLES,
    DirectModel,
    Networks,
    Settings,
    cells,
    log,
    measure,
    one_step,
    whole_episode,
)
from pmoss_benchmarks.study import Run
from pmoss_env.types import Float32Array, Float64Array
from tests.replays import recheck

SMALL = Networks(width=8, updates=20, rounds=2, updates_per_round=5)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    recipe = Recipe(
        env={"machine": "toy", "slices": 6, "interference": "busy_core"},
        episodes=8,
        tier="logged",
        behaviours=(Behaviour("random"),),
        reference_episodes=0,
        counterfactuals=True,
    )
    return collect(recipe, tmp_path_factory.mktemp("logged") / "dataset")


def uniform(features: Float32Array) -> Float64Array:
    return np.full(features.shape[:-1], 1 / features.shape[-2])


def test_the_truth_is_what_the_environment_pays_for_every_choice(dataset: Dataset) -> None:
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


def test_the_behaviours_own_value_is_the_mean_of_the_data(dataset: Dataset) -> None:
    data = log(dataset)
    estimates = one_step(data, uniform, DirectModel(data, SMALL, seed=0))
    # The stored chance is a float32.
    assert estimates["importance sampling"] == pytest.approx(data.rewards.mean(), rel=1e-5)
    assert estimates["self-normalised"] == pytest.approx(data.rewards.mean(), rel=1e-5)
    estimates = whole_episode(data, uniform, SMALL, seed=0)
    mean = data.rewards.sum(axis=1).mean()
    assert estimates["importance sampling, per decision"] == pytest.approx(mean, rel=1e-5)
    assert estimates["self-normalised, per decision"] == pytest.approx(mean, rel=1e-5)


def test_a_row_comes_out_again_and_its_table_holds_every_estimator() -> None:
    settings = Settings({"toy": 8}, episodes=4, seeds=(0,), networks=SMALL)
    run = Run(settings, Path(), Path(), Path())
    (cell,) = cells(settings)
    row = {**cell, **measure(run, cell)}
    assert recheck(off_policy, run, row) == []
    assert len(row["estimates"]) == 2 * len(POLICIES)
    assert len(TABLES["default"]([row]).rows) == 8
    estimators = {name for value in row["estimates"] for name in value["estimators"]}
    assert estimators > {*NETWORKS}
    row["estimates"][0]["estimators"]["self-normalised"]["error"] += 1e-9
    (line,) = recheck(off_policy, run, row)
    assert line.startswith("estimates[0].estimators.self-normalised.error: stored")
