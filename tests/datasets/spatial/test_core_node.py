"""Datasets of episodes whose actions choose the node of the data."""

import dataclasses

import numpy as np
import pytest

from pmoss_datasets.collection import collect
from pmoss_datasets.domain import find_domain
from pmoss_datasets.recipes import Recipe
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import UnsupportedError

FULL = {"node_memory_gib": [0.1, 0.6]}
ENV = {
    "machine": "toy",
    "slices": 8,
    "actions": "core_node",
    "observation": "complete",
    "constraints": FULL,
}
POLICIES = ("random", "lpt", "best-fit", "local-search")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    behaviours = tuple(
        {"policy": name, "epsilon": epsilon} for name in POLICIES for epsilon in (0.0, 0.5)
    )
    recipe = Recipe(env=ENV, episodes=8, reference_episodes=2, behaviours=behaviours)
    return collect(recipe, tmp_path_factory.mktemp("datasets") / "one")


def test_expansion_is_what_the_environment_showed(dataset):
    env = SpatialSchedulingEnv(**ENV)
    expander = dataset.domain.expander(dataset)
    assert expander.actions == env.action_space.n
    for episode in dataset:
        rows = expander.observations(episode, last=True)
        masks = expander.masks(episode, last=True)
        shown, info = env.reset(seed=int(episode.seed))
        for t in range(9):
            assert all(np.array_equal(rows[key][t], shown[key]) for key in shown)
            assert np.array_equal(masks[t], info["action_mask"])
            if t < 8:
                shown, _, _, _, info = env.step(int(episode.actions[t]))
        assert info["throughput"] == episode.final_throughput


def test_actions_that_do_not_lead_to_the_nodes_are_reported(dataset):
    wrong = dataclasses.replace(dataset[0], actions=dataset[0].actions ^ 1)
    arrays = {
        field.name: np.stack([np.asarray(getattr(wrong, field.name))])
        for field in dataset.metadata.fields
    }
    problems = list(dataset.domain.problems(arrays, dataset.metadata, dataset.machine))
    assert any("is not where the actions put the data" in line for line in problems)


def test_counterfactuals_are_of_cores_alone():
    recipe = Recipe(env=ENV, counterfactuals=True)
    with pytest.raises(UnsupportedError, match="use actions='core'"):
        find_domain("spatial").player(recipe)
