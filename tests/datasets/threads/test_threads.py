"""Datasets of thread scheduling: episodes of different lengths, recorded as they were."""

import pytest

from pmoss_datasets import Recipe, collect, find_domain
from pmoss_env.errors import DescriptionError
from tests.datasets.live import check_steps

THREADS = find_domain("threads")
ENV = {"requests": 100_000}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(domain="threads", env=ENV, episodes=5, reference_episodes=2)
    return collect(recipe, tmp_path_factory.mktemp("threads") / "data")


def test_every_step_is_the_live_one(dataset):
    assert dataset.metadata.id == (
        "pmoss/xeon-6240m-optane-threads-fillrandom-requests-100000/mixed-v0"
    )
    for episode, info in check_steps(THREADS, dataset):
        assert episode.outcome == info["requests"] / info["seconds"] / 1e3
        assert episode.infos["moved"].sum() >= 0


def test_impossible_tasks_are_refused():
    with pytest.raises(DescriptionError, match="machine = 3: must be a text"):
        Recipe(domain="threads", env={"machine": 3})
    with pytest.raises(DescriptionError, match="env: workload: unknown"):
        Recipe(domain="threads", env={"workload": "ycsb-a"})
