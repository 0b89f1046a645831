"""Many episodes at once: the same actions as one after the other, within the limit."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

import pmoss_agents
from pmoss_agents.spatial.decision_batch import Beginnings, Plays, play_many
from pmoss_agents.spatial.decision_player import Player
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.spatial.episodes import Episodes
from pmoss_agents.spatial.observations import FullSequenceView
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.errors import CheckpointError, DatasetError, UnsupportedError
from tests.agents.spatial.playing import BUSY, TOY, TRANSFORMER, collected, play

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


@pytest.mark.parametrize("changes", [{}, {"falls": "even"}, {"snapshot": "incumbent"}])
def test_the_papers_tokens_in_play_are_those_of_training(tmp_path, monkeypatch, changes):
    """A logged schedule that runs is the snapshot that the data hold, and the wish what it served.

    Then each return-to-go and machine view is as in training, unless a setting is another one.
    """
    env = {**TOY, "order": "index", "observation": "paper", "incumbent": "random"}
    data = collected(env, tmp_path, episodes=4)
    agent = learned(data, **{"falls": "observed", "snapshot": "own", "updates": 1, **changes})
    views, returns = [], []

    def scores(player, state, wanted, actions):
        views.append(state["machine_view"][0, 0])
        returns.append(float(wanted) * agent._expected)
        return inner(player, state, wanted, actions)

    inner = Player.scores
    monkeypatch.setattr(Player, "scores", scores)
    episode = data[1]
    world = gymnasium.make("pmoss/SpatialScheduling-v0", **env)
    agent.set_target(episode.final_throughput)
    options = {"incumbent": episode.final_cores.astype(np.int32)}
    observation, info = world.reset(seed=0, options=options)
    for tile in episode.actions.tolist():
        agent.act(observation, info["action_mask"])
        observation, _, _, _, info = world.step(tile)
    world.close()
    learned_from = Episodes(data, agent.config).whole([1])
    inputs = {"returns": torch.tensor(returns), "machine_view": torch.stack(views)}
    same = {
        key: torch.allclose(value, learned_from[key][0], rtol=1e-4, atol=1e-4)
        for key, value in inputs.items()
    }
    expected = {"returns": changes != {"falls": "even"}, "machine_view": "snapshot" not in changes}
    # The machine view in play is of the schedule that runs; then both fall as it serves.
    assert same == expected


def test_a_snapshot_that_the_data_lack_is_named(data):
    class Blind:
        def __getattr__(self, name):
            return getattr(data, name)

        def __getitem__(self, index):
            episode = data[index]
            return replace(episode, final_running_ratio=0 * episode.final_running_ratio)

    view = FullSequenceView(data, "slice", "own")
    assert view[0]["machine_view"].shape == FullSequenceView(data, "slice")[0]["machine_view"].shape
    view._dataset = Blind()
    with pytest.raises(DatasetError, match=r"episode 0: .* use snapshot = 'incumbent'"):
        view[0]


def test_the_plain_encoder_has_three_convolutions_and_nothing_passes_them_by(data, tmp_path):
    agent = learned(data, encoder="plain")
    network = agent.network
    assert sum(isinstance(module, torch.nn.Conv2d) for module in network.modules()) == 3
    assert "pointer.weight" not in network.state_dict()
    batch = Episodes(data, agent.config).batch(0)
    with torch.no_grad():
        _, tokens = network.states(batch)
        assert tokens.std((0, 1)).min() > 0
        network.states.third.weight.zero_()
        _, tokens = network.states(batch)
        assert (tokens == tokens[0, 0]).all()
    path = tmp_path / "agent.safetensors"
    agent.save(path)
    assert play(pmoss_agents.load(path), PAPER) == play(agent, PAPER)


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
