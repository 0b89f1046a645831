"""The D4RL form holds what the environment showed, paid and allowed."""

import gymnasium
import numpy as np
import pytest

from pmoss_datasets.formats import D4RLView
from pmoss_env.envs.spatial.env import REWARDS


def test_every_step_is_the_live_one(dataset):
    view = D4RLView(dataset)
    data = view.qlearning()
    env = gymnasium.make(
        "pmoss/SpatialScheduling-v0", **{**dataset.metadata.env_kwargs, "reward": "terminal"}
    )
    space, steps = env.observation_space, dataset.slices
    row = 0
    for episode in dataset:
        observation, info = env.reset(seed=episode.seed)
        for action in episode.actions:
            flat = gymnasium.spaces.flatten(space, observation)
            assert data["observations"].dtype == flat.dtype
            np.testing.assert_array_equal(data["observations"][row], flat)
            np.testing.assert_array_equal(data["infos/action_mask"][row], info["action_mask"])
            observation, reward, ended, _, info = env.step(int(action))
            assert data["actions"][row] == action
            assert data["rewards"][row] == np.float32(reward)
            assert data["terminals"][row] == ended
            following = gymnasium.spaces.flatten(space, observation)
            np.testing.assert_array_equal(data["next_observations"][row], following)
            np.testing.assert_array_equal(data["infos/next_action_mask"][row], info["action_mask"])
            row += 1
    assert row == len(data["actions"]) == len(dataset) * steps
    assert data["terminals"].sum() == len(dataset) and not data["timeouts"].any()


def test_the_forms_agree(dataset):
    view = D4RLView(dataset, "slice")
    data, learning = view.dictionary(), view.qlearning()
    assert set(learning) - set(data) == {"next_observations", "infos/next_action_mask"}
    rows = list(view.sequences([2, 0]))
    steps = dataset.slices
    for key, value in data.items():
        np.testing.assert_array_equal(learning[key], value, err_msg=key)
        if not key.startswith("metadata/"):
            np.testing.assert_array_equal(rows[0][key], value[2 * steps : 3 * steps], err_msg=key)
            np.testing.assert_array_equal(rows[1][key], value[:steps], err_msg=key)
    seen = data["observations"][:, view.columns["position_mask"]]
    np.testing.assert_array_equal(seen, data["infos/action_mask"])


@pytest.mark.parametrize("mode", REWARDS)
def test_scores_are_those_of_the_dataset(dataset, mode):
    view = D4RLView(dataset, mode)
    returns = view.dictionary()["rewards"].reshape(len(dataset), -1).sum(axis=1)
    score = view.get_normalized_score(returns)
    np.testing.assert_array_equal(dataset.normalized_score(returns, mode), 100 * score)
    low, high = dataset.reference_returns(mode)
    assert view.get_normalized_score(low) == 0 and view.get_normalized_score(high) == 1
    assert view.dictionary([0])["metadata/ref_max_score"] == high
