"""Small datasets, and a Decision Transformer that learned from one."""

from importlib.util import find_spec

import pytest

import pmoss_agents
from pmoss_datasets import Behaviour
from tests.agents.spatial.playing import BUSY, TRANSFORMER, collected

#: Without PyTorch there are no networks to test.
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Bad and good episodes of the busy task."""
    parts = (Behaviour("random", 1), Behaviour("lpt", 1), Behaviour("local-search", 2, budget=100))
    return collected(BUSY, tmp_path_factory.mktemp("data"), *parts, episodes=60)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What planners learn from: two slices per core."""
    return collected({**BUSY, "slices": 16, "order": "index"}, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def fitted(dataset):
    agent = pmoss_agents.make("decision-transformer", **TRANSFORMER)
    agent.fit(dataset)
    return agent
