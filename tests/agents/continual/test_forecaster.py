"""The forecaster and the learned repair of continual scheduling."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="NOT RUN: the extra agents is missing")
import pmoss_agents
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.evaluation import evaluate
from pmoss_env.errors import CheckpointError, DescriptionError

torch = pytest.importorskip("torch")

from pmoss_agents.continual.forecaster_network import EDGES, Forecast, History, Network, draw  # noqa: E402
from pmoss_datasets import Recipe, collect  # noqa: E402
from pmoss_env.errors import DatasetError, UnsupportedError  # noqa: E402
from pmoss_env.machines import load_machine  # noqa: E402

TOY = {"machine": "toy", "slices": 16, "epochs": 16, "drift": "periodic-cores"}
DRIFT = {"drift_options": {"count": 1, "period": 2}}
SMALL = {"width": 16, "batch_size": 4, "futures": 2}
MACHINE = load_machine("toy")


def recipe(**env):
    stay = [{"policy": "stay"}]
    given = {**TOY, **DRIFT, **env}
    return Recipe(domain="continual", env=given, episodes=8, behaviours=stay, reference_episodes=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return collect(recipe(), tmp_path_factory.mktemp("data") / "dataset")


def test_it_learns_what_comes_next(data):
    first = pmoss_agents.make("forecaster", updates=1, **SMALL).fit(data)["loss"]
    assert pmoss_agents.make("forecaster", updates=60, **SMALL).fit(data)["loss"] < 0.5 * first


@pytest.mark.parametrize("config", [{}, {"ahead": 2, "quiet": 0.2}], ids=["one", "several"])
def test_it_plays_legally_and_comes_back_from_a_file(data, tmp_path, config):
    agent = pmoss_agents.make("forecaster", updates=20, **config, **SMALL)
    agent.fit(data)
    agent.save(tmp_path / "agent.safetensors")
    again = pmoss_agents.load(tmp_path / "agent.safetensors")
    env = {**data.metadata.env_kwargs, "on_illegal": "raise", "deviation": 0.1 if config else 0.0}
    env = CONTINUAL.make_env(env)
    played = [CONTINUAL.play(env, policy, 5) for policy in (agent, again, agent)]
    assert len({(result.actions, result.outcome) for result in played}) == 1
    assert any(action < 16 * MACHINE.tiles for action in played[0].actions)
    again.config = replace(again.config, ahead=1)
    assert CONTINUAL.play(env, again, 5).actions != played[0].actions


def test_an_agent_from_before_plans_for_one_epoch_as_planners_do():
    config = pmoss_agents.load("pmoss/forecaster-jobs-v1").config
    assert config.ahead == 0 and config.quiet == 0


def test_forecasts_step_by_step_are_those_of_whole_episodes():
    torch.manual_seed(0)
    network, history = Network(8), History(MACHINE)
    node_of = torch.from_numpy(MACHINE.node_of_core[MACHINE.workers]).long()
    shares = np.random.default_rng(0).random((4, MACHINE.cores + MACHINE.nodes))
    inputs = [[torch.from_numpy(part) for part in history.add(epoch)] for epoch in shares]
    nodes, cores = (torch.stack(part)[None] for part in zip(*inputs, strict=True))
    with torch.no_grad():
        whole, _ = network(nodes, cores, node_of)
        memory = None
        for epoch in range(4):
            step = slice(epoch, epoch + 1)
            forecast, memory = network(nodes[:, step], cores[:, step], node_of, memory)
            for name, part in vars(forecast).items():
                torch.testing.assert_close(part[:, 0], getattr(whole, name)[:, epoch])


def test_futures_are_drawn_with_the_odds_of_the_forecast():
    nodes, workers = MACHINE.nodes, MACHINE.workers.size
    odds = torch.log(torch.tensor([0.5, 0.0, 0.25, 0.0, 0.25])).clamp(min=-50)
    forecast = Forecast(
        odds.expand(nodes, -1),
        torch.tensor([0.1, 0.3, 0.6, 0.8]).expand(nodes, -1),
        torch.full((workers,), -1e9).index_fill(0, torch.tensor([0]), 0.0),
        torch.full((workers,), 0.4),
    )
    futures = np.stack(draw(forecast, MACHINE, 4, np.random.default_rng(3)))
    streams, busy = futures[:, MACHINE.cores :], futures[:, MACHINE.workers]
    for node in streams.T:
        np.testing.assert_allclose(np.sort(node), [0.0, 0.0, 0.3, 0.8], atol=1e-6)
    np.testing.assert_allclose(np.sort(busy[:, 0]), [0.0, 0.0, 0.4, 0.4], atol=1e-6)
    assert not busy[:, 1:].any()
    # A job takes either memory or time.
    node = MACHINE.node_of_core[MACHINE.workers[0]]
    assert not ((streams[:, node] > 0) & (busy[:, 0] > 0)).any()
    assert len(EDGES) == odds.numel()


def test_what_cannot_be_learned_from_is_named(data, tmp_path):
    for drift, load in (
        ("moving-load", "closed"),
        ("daily-mix", "closed"),
        ("daily-load", "open:5"),
    ):
        asked = collect(recipe(drift=drift, drift_options={}, load=load), tmp_path / drift)
        with pytest.raises(DatasetError, match=f"drift = '{drift}': co-tenants cannot"):
            pmoss_agents.make("forecaster").fit(asked)
    threads = Recipe(domain="access-path", episodes=2, reference_episodes=0)
    with pytest.raises(DatasetError, match="access-path"):
        pmoss_agents.make("forecaster").fit(collect(threads, tmp_path / "other"))
    for futures, ahead in ((10**9, 0), (100, 50)):
        with pytest.raises(DescriptionError, match=rf"futures = {futures}: must be at most 4,096"):
            pmoss_agents.make("forecaster", futures=futures, ahead=ahead)
    with pytest.raises(DescriptionError, match="be 0 where ahead is 0"):
        pmoss_agents.make("forecaster", quiet=0.2)
    with pytest.raises(CheckpointError, match="fit"):
        pmoss_agents.make("forecaster").begin(None, np.random.default_rng())
    env = SimpleNamespace(machine=SimpleNamespace(name="host", parameters={}))
    env.unwrapped = env
    with pytest.raises(UnsupportedError, match=r"^forecaster: plans in a model.* learned-repair"):
        pmoss_agents.make("forecaster").check_env(env)


SETTINGS = {"machine": "toy", "slices": 16, "epochs": 12, "drift": "busy-cores", "noise": 1.0}


def test_it_serves_more_than_the_schedule_that_stays():
    policies = {
        "learned-repair": pmoss_agents.make("learned-repair"),
        "stay": CONTINUAL.policy("stay"),
    }
    rows = evaluate(SETTINGS, policies, [3], 3, 50, 5, env_id=CONTINUAL.env_id).rows
    assert not any(row.illegal_actions for row in rows)
    mean = {name: np.mean([r.throughput for r in rows if r.policy == name]) for name in policies}
    assert mean["learned-repair"] > 1.02 * mean["stay"]


def test_its_moves_are_those_of_the_predicted_times():
    agent = pmoss_agents.make("learned-repair", act=0.0, memory=1.0)
    env = CONTINUAL.make_env(SETTINGS)
    observation, _ = env.reset(seed=5)
    agent.begin(env, np.random.default_rng(0))
    workers, slices = env.unwrapped.machine.workers, env.unwrapped.slices
    times = np.ones((slices, workers.size))
    # Whatever runs on the last worker takes ten times as long.
    times[:, -1] = 10.0
    agent.planner.expected_times = lambda: times
    slice_, tile = agent.act(observation)
    core_of_tile = env.unwrapped.machine.core_of_tile
    assert core_of_tile[observation["slice_tiles"][slice_]] == workers[-1]
    assert core_of_tile[tile] != workers[-1]
    agent.reset()
    with pytest.raises(CheckpointError, match=r"call begin\(env, rng\) first"):
        agent.act(observation)


def test_what_it_cannot_ask_is_refused():
    with pytest.raises(CheckpointError, match="forecaster has no network of service"):
        pmoss_agents.make("learned-repair", model="pmoss/forecaster-jobs-v2")
    with pytest.raises(DescriptionError, match=r"memory = 0\.0"):
        pmoss_agents.make("learned-repair", memory=0.0)
    with pytest.raises(CheckpointError, match="call begin"):
        pmoss_agents.make("learned-repair").act({}, None)
