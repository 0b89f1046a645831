"""Learners that see all slices, and many episodes at once: the same actions, in no order."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

import pmoss_agents
from pmoss_agents.checkpoints import SUFFIX
from pmoss_agents.spatial.decision_batch import Beginnings, Plays, play_many
from pmoss_agents.spatial.decision_player import Player
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.spatial.episodes import Episodes
from pmoss_agents.spatial.observations import FullSequenceView
from pmoss_datasets import Recipe, collect, find_domain
from pmoss_datasets.formats.d3rlpy import import_d3rlpy
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.errors import CheckpointError, DatasetError, UnsupportedError
from tests.agents.spatial.playing import BUSY, TOY, TRANSFORMER, collected, play

import_d3rlpy()

from pmoss_agents.spatial.encoders import TileEncoder, TileScores  # noqa: E402
from pmoss_agents.spatial.observations import KEYS, all_slices, slices_left  # noqa: E402
from pmoss_agents.spatial.transitions import Transitions  # noqa: E402

BUSY_TOY = {"machine": "toy", "slices": 8, "interference": "busy_core"}
TINY = {"channels": 4, "width": 8, "updates": 2, "batch_size": 8}
SEQUENCES = ("decision-transformer", "qt")
LEARNERS = ("bc", "percentile-bc", "bcq", "cql", "iql", "xql", "rebrac", "cdqac", *SEQUENCES)


@pytest.fixture(scope="module", params=["index", "load"])
def dataset(request, tmp_path_factory):
    recipe = Recipe(env={**BUSY_TOY, "order": request.param}, episodes=6, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("complete") / "data")


def network(shapes, samples, machine) -> TileScores:
    torch.manual_seed(0)
    encoder = TileEncoder(shapes, channels=4, width=8, inputs=("slice", "core"))
    scores = TileScores(encoder, level=False)
    torch.nn.init.normal_(scores.plain.weight)
    encoder.set_up(samples, machine)
    return scores


def test_data_show_what_the_environment_shows(dataset) -> None:
    source = Transitions(dataset, np.arange(2), reward=None, complete=True)
    kwargs = dataset.metadata.env_kwargs
    env = find_domain("spatial").make_env({**kwargs, "observation": "complete"})
    episode = dataset[1]
    observation, _ = env.reset(seed=int(dataset.column("seed")[1]))
    for step in range(dataset.steps):
        shown = source.at([dataset.steps + step]).observations[len(KEYS)][0]
        left = slices_left(observation, kwargs["order"])
        observed = all_slices(observation["slice_counters"], left)
        assert left.sum() == dataset.steps - step
        # In another order: the data's is that of placement.
        np.testing.assert_array_equal(observed[episode.order], shown)
        observation, *_ = env.step(int(episode.actions[step]))
    assert not slices_left(observation, kwargs["order"]).any()
    env.close()


def test_no_order_of_slices_counts_and_each_of_them_does(dataset) -> None:
    source = Transitions(dataset, np.arange(6), reward=None, complete=True)
    samples = {
        "slice_view": np.concatenate([source.at([i]).observations[5] for i in range(40)]),
        "machine_view": source.at(range(40)).observations[1].reshape(40, -1, source.shapes[5][0]),
        "incumbent_view": source.at([0]).observations[0].reshape(1, -1, source.shapes[5][0]),
        "meta": source.at([0, 9]).observations[2],
    }
    scores = network(source.shapes, samples, dataset.machine)
    batch = [torch.from_numpy(array) for array in source.at([1, 3, 12, 20]).observations]
    plain = scores(batch)
    # What many encoders share gives the same.
    torch.testing.assert_close(scores(scores.encoder.shared(batch)), plain)
    order = torch.randperm(dataset.steps, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(scores([*batch[: len(KEYS)], batch[len(KEYS)][:, order]]), plain)
    # Counters without their flags, or another slice's counters, are other sets.
    for column in (slice(None, -1), slice(-1, None)):
        other = [array.clone() for array in batch]
        other[-1][..., column] = other[-1][:, order][..., column]
        assert not torch.allclose(scores(other), plain)
    # Tiles are no set: permuting them permutes their scores at most together with their inputs.
    tiles = [array.clone() for array in batch]
    tiles[1] = tiles[1].flip(2)
    assert not torch.allclose(scores(tiles), plain)


def test_without_it_layers_begin_as_ever(dataset) -> None:
    shapes = Transitions(dataset, np.arange(1), reward=None, complete=True).shapes
    weights = []
    for few in (shapes, shapes[: len(KEYS)]):
        torch.manual_seed(3)
        encoder = TileEncoder(few, channels=4, width=8, inputs=("slice", "core"))
        weights.append(dict(encoder.named_parameters()))
    assert {name.partition(".")[0] for name in {*weights[0]} - {*weights[1]}} == {"every"}
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence_models_see_the_set_before_the_first_step(name: str, dataset) -> None:
    agent = pmoss_agents.make(name, **TINY, heads=2, layers=1, complete=True)
    agent.fit(dataset)
    batch = FullSequenceView(dataset).batch([0, 1])
    slices, network = batch["slice_view"], agent.network
    with torch.no_grad():
        plain = network.opening(batch["meta"], slices)
        torch.testing.assert_close(network.opening(batch["meta"], slices.flip(1)), plain)
        other = slices.clone()
        other[:, -1] *= 2
        assert not torch.allclose(network.opening(batch["meta"], other), plain)
        # The last slice's counters reach the first step's scores through that token alone.
        assert not torch.equal(network({**batch, "slice_view": other})[:, 0], network(batch)[:, 0])
        network.every = None
        assert torch.equal(network({**batch, "slice_view": other})[:, 0], network(batch)[:, 0])


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_learn_play_and_are_kept(name: str, dataset, tmp_path) -> None:
    few = {"heads": 2, "layers": 1} if name in SEQUENCES else {}
    agent = pmoss_agents.make(name, **TINY, **few, complete=True)
    agent.fit(dataset)
    assert agent.task["observation"] == "complete"
    if name not in SEQUENCES:
        assert len(agent.task["shapes"]) == len(KEYS) + 1
    path = tmp_path / f"agent{SUFFIX}"
    agent.save(path)
    again = pmoss_agents.load(path)
    domain = find_domain("spatial")
    kwargs = dataset.metadata.env_kwargs
    env = domain.make_env({**kwargs, "observation": "complete"})
    again.check_env(env)
    played = [domain.play(env, player, 5).actions for player in (agent, again)]
    assert played[0] == played[1] and len(played[0]) == dataset.steps
    env.close()
    full = domain.make_env(kwargs)
    with pytest.raises(CheckpointError, match="fitted for observation = complete"):
        again.check_env(full)
    observation, _ = full.reset(seed=0)
    again.reset()
    with pytest.raises(CheckpointError, match="observation='complete'"):
        again.act(observation)
    full.close()


def test_data_that_show_no_slices_are_refused(tmp_path) -> None:
    recipe = Recipe(env={**BUSY_TOY, "observation": "paper"}, episodes=2, reference_episodes=0)
    data = collect(recipe, tmp_path / "data")
    for name in ("bc", "decision-transformer"):
        with pytest.raises(DatasetError, match=r"observation='paper'.*needs 'full' or 'complete'"):
            pmoss_agents.make(name, updates=1, complete=True).fit(data)


PAPER = {**BUSY, "order": "index", "observation": "paper"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return collected(PAPER, tmp_path_factory.mktemp("data"), episodes=20)


def learned(data, **changes):
    agent = DecisionTransformer(**{**TRANSFORMER, "inputs": ["core"], "reward": "slice", **changes})
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
