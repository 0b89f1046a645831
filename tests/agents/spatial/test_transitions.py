"""States put together from slices are those that the environment showed."""

import numpy as np
import pytest

pytest.importorskip("torch")

from pmoss_agents.spatial.observations import KEYS
from pmoss_agents.spatial.transitions import Transitions
from pmoss_datasets import Recipe, collect
from pmoss_datasets.spatial.expansion import Expander, rewards

TOY = {"machine": "toy", "slices": 12, "constraints": {"max_slices_per_core": 3}}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(env=TOY, episodes=4, tier="heuristic", reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("data") / "dataset")


@pytest.mark.parametrize("n_steps", [1, 5, 100])
def test_transitions_are_those_of_the_episode(dataset, n_steps):
    expander = Expander(dataset)
    assert tuple(expander.space.spaces) == KEYS
    source = Transitions(
        dataset, np.array([1, 3]), reward="improvement", n_steps=n_steps, gamma=0.9, scale=2.0
    )
    assert len(source) == 24
    batch = source.at(range(24))
    for row, number in ((0, 1), (12, 3)):
        episode = dataset[number]
        seen = expander.observations(episode)
        paid = rewards(episode, "improvement")
        for t in range(12):
            at, end = row + t, min(t + n_steps, 12)
            for i, key in enumerate(KEYS):
                np.testing.assert_array_equal(batch.observations[i][at], seen[key][t])
                then = seen[key][end] if end < 12 else np.zeros_like(seen[key][0])
                np.testing.assert_array_equal(batch.next_observations[i][at], then)
            assert batch.actions[at, 0] == episode.actions[t]
            assert batch.intervals[at, 0] == end - t
            assert batch.terminals[at, 0] == (end == 12)
            expected = sum(0.9 ** (k - t) * paid[k] / 2 for k in range(t, end))
            np.testing.assert_allclose(batch.rewards[at, 0], expected, rtol=1e-5, atol=1e-6)


def test_without_rewards_nothing_comes_next(dataset):
    batch = Transitions(dataset, np.array([0]), reward=None).at(range(12))
    assert not any(array.any() for array in batch.next_observations)
    assert not batch.rewards.any()


def test_each_lap_goes_through_all_in_an_order_of_its_own(dataset):
    source = Transitions(dataset, np.arange(4), reward=None, seed=1)
    asked = []
    source.at = asked.append
    for update in range(12):
        source.batch(update, 8)
    rows = np.concatenate(asked).reshape(2, 48)
    for lap in rows:
        assert sorted(lap) == list(range(48))
    assert (rows[0] != rows[1]).any()
    source.batch(7, 8)  # whatever was asked before
    assert asked[-1] == asked[7]
