"""Many episodes at once: the same actions as one after the other, within the limit."""

import gymnasium
import numpy as np
import pytest

from pmoss_env.errors import CheckpointError, UnsupportedError
from tests.agents.spatial.playing import BUSY, TRANSFORMER, collected

torch = pytest.importorskip("torch")

from pmoss_agents.spatial.decision_batch import Beginnings, Plays, play_many  # noqa: E402
from pmoss_agents.spatial.decision_transformer import DecisionTransformer  # noqa: E402
from pmoss_env.envs.spatial.observation import observed_counters  # noqa: E402

PAPER = {**BUSY, "order": "index", "observation": "paper"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return collected(PAPER, tmp_path_factory.mktemp("data"), episodes=20)


def learned(data, **changes):
    settings = {**TRANSFORMER, "inputs": ["core"], "reward": "slice", **changes}
    agent = DecisionTransformer(**settings)
    agent.fit(data)
    return agent


def beginnings_of(seeds):
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **PAPER)
    counters, metas = [], []
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        counters.append(observed_counters(env.unwrapped.incumbent_snapshot)[env.unwrapped.order])
        metas.append(observation["meta"])
    mask = observation["position_mask"].ravel()
    env.close()
    return Beginnings(np.stack(counters).astype(np.float32), np.stack(metas), mask)


@pytest.mark.parametrize(
    "changes",
    [
        {"meta_position": "first"},
        {"meta_position": "last"},
        {"meta_position": "last", "context": 3},
        {"meta_position": "last", "falls": "observed"},
    ],
)
def test_the_same_actions_as_one_after_the_other(data, changes):
    agent = learned(data, target_return=0.9, **changes)
    plays = Plays(
        np.array([1, 0, 1]), np.full(3, 0.9), np.zeros(3, dtype=bool), np.zeros(3, dtype=int)
    )
    actions = play_many(agent, beginnings_of((3, 4)), plays, rows=2)
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **PAPER)
    for row, seed in zip(actions, (4, 3, 4), strict=True):
        observation, info = env.reset(seed=seed)
        agent.reset()
        for tile in row.tolist():
            assert agent.act(observation, info["action_mask"]) == tile
            observation, _, _, _, info = env.step(tile)
    env.close()


def test_no_core_gets_more_than_its_limit(data):
    agent = learned(data)
    rows = 12
    sampled = np.arange(rows) % 2 == 0
    plays = Plays(np.zeros(rows, dtype=int), np.ones(rows), sampled, np.full(rows, 2))
    actions = play_many(agent, beginnings_of((5,)), plays)
    assert max(np.bincount(row).max() for row in actions) <= 2
    assert len(np.unique(actions[~sampled], axis=0)) == 1
    assert len(np.unique(actions[sampled], axis=0)) > 1
    assert np.array_equal(actions, play_many(agent, beginnings_of((5,)), plays))
    assert not np.array_equal(actions, play_many(agent, beginnings_of((5,)), plays, seed=1))


def test_what_it_cannot_play_is_refused(data):
    plays = Plays(np.zeros(1, dtype=int), np.ones(1), np.zeros(1, dtype=bool), np.zeros(1))
    with pytest.raises(UnsupportedError, match="reward='slice'"):
        play_many(learned(data, reward="terminal"), beginnings_of((5,)), plays)
    with pytest.raises(CheckpointError, match=r"call fit\(\)"):
        play_many(DecisionTransformer(), beginnings_of((5,)), plays)
