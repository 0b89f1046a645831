"""Datasets of thread scheduling: episodes of different lengths, recorded as they were."""

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect, find_domain
from pmoss_env.errors import DescriptionError

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
    dataset.verify()
    env = THREADS.make_env(dataset.metadata.env_kwargs)
    expander = dataset.expander()
    assert expander.space == env.observation_space
    for episode in dataset:
        observation, info = env.reset(seed=episode.seed)
        expanded, masks = (
            expander.observations(episode, last=True),
            expander.masks(episode, last=True),
        )
        for t in range(episode.steps + 1):
            for key, value in observation.items():
                np.testing.assert_array_equal(expanded[key][t], value)
            np.testing.assert_array_equal(masks[t], info["action_mask"])
            if t < episode.steps:
                observation, reward, ended, _, info = env.step(episode.actions[t])
                assert reward == episode.rewards[t]
        assert ended
        assert episode.outcome == info["requests"] / info["seconds"] / 1e3
        assert episode.infos["moved"].sum() >= 0
    env.close()


def test_impossible_tasks_are_refused():
    with pytest.raises(DescriptionError, match="machine = 3: must be a text"):
        Recipe(domain="threads", env={"machine": 3})
    with pytest.raises(DescriptionError, match="env: workload: unknown"):
        Recipe(domain="threads", env={"workload": "ycsb-a"})
