"""A small dataset and the Decision Transformer that learned from it."""

import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_datasets import Behaviour, Recipe, collect
from tests.agents.spatial.small_transformer import SMALL, TOY


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(
        env=TOY,
        episodes=60,
        seed=1,
        behaviours=(
            Behaviour("random", 1),
            Behaviour("lpt", 1),
            Behaviour("local-search", 2, budget=100),
        ),
        reference_episodes=0,
    )
    return collect(recipe, tmp_path_factory.mktemp("data") / "dataset")


@pytest.fixture(scope="module")
def fitted(dataset):
    agent = pmoss_agents.make("decision-transformer", **SMALL)
    agent.fit(dataset)
    return agent
