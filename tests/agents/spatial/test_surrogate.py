"""The surrogate and the pair policy: what they learn, and what is planned in them."""

import dataclasses

import numpy as np
import pytest
import torch

import pmoss_agents
from pmoss_agents import checkpoints
from pmoss_agents.spatial.encoders import GROUPS as SUMS
from pmoss_agents.spatial.pair_network import PairNetwork, draw
from pmoss_agents.spatial.pair_policy import PairPolicy, log_likelihood
from pmoss_agents.spatial.planning.balancing import longest_first
from pmoss_agents.spatial.planning.pairs import Pairs
from pmoss_agents.spatial.planning.planner import Planner
from pmoss_agents.spatial.planning.topology import Topology
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.policies import Measured, SchedulePolicy
from pmoss_datasets.several import Several
from pmoss_datasets.spatial import scoring
from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import CheckpointError, DatasetError, DescriptionError, UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_NAMES
from tests.agents.spatial.playing import collected, mean_scores

TOY = {"machine": "toy", "slices": 16, "interference": "busy_core"}
SMALL = {"members": 2, "updates": 150, "width": 24, "features": 8, "demands": 4, "rounds": 3}


@pytest.fixture(scope="module")
def agent(data):
    agent = Surrogate(**SMALL)
    agent.fit(data)
    return agent


def test_it_is_fine_tuned_from_its_weights(agent, data):
    again = agent.renewed(updates=1, learning_rate=1e-9)
    assert (again.updates, again.config.learning_rate, again.dataset) == (0, 1e-9, {})
    before, begun = agent._state()[0], again._state()[0]
    assert all(np.array_equal(begun[name], before[name]) for name in begun)
    # Fitted weights predict better than new ones.
    assert again.fit(data)["error"] < 0.5 * Surrogate(**{**SMALL, "updates": 1}).fit(data)["error"]
    assert agent.updates == SMALL["updates"]
    for wrong, kind in (({"width": 12}, CheckpointError), ({"widths": 12}, DescriptionError)):
        with pytest.raises(kind):
            agent.renewed(**wrong)
    with pytest.raises(CheckpointError, match="call fit"):
        Surrogate(**SMALL).renewed()
    with pytest.raises(UnsupportedError, match="cannot be fine-tuned"):
        pmoss_agents.make("bc").renewed()


def test_it_beats_the_schedules_it_learned_from(agent):
    scores = mean_scores(TOY, {"surrogate": agent, "random": SchedulePolicy("random")})
    assert scores["surrogate"] > 60 > scores["random"]


def test_predicted_differences_of_cores_count_only_where_they_help(agent, monkeypatch):
    other = agent.renewed(tries=1)
    other.use(load_machine("toy"))
    workers, shares = len(other.topology.tiles), np.linspace(1.0, 2.0, 24)
    wrong = np.random.default_rng(0).uniform(0.8, 1.2, (24, workers))
    monkeypatch.setattr(Planner, "times", lambda _, columns: shares[:, None] * wrong)
    # By this model of throughput, the cores are alike.
    monkeypatch.setattr(Planner, "worth", lambda _, plan: -np.bincount(plan, shares, workers).max())
    plan = other.planner(np.ones((24, len(COUNTER_NAMES))), np.arange(24) % workers).plan()
    alike = np.repeat((shares * wrong.mean(1))[:, None], workers, 1)
    assert plan.tolist() == longest_first(alike).tolist()


def test_each_episode_gets_a_plan_of_its_own_without_reset(agent, monkeypatch):
    env = SpatialSchedulingEnv(**TOY, observation="complete")
    agent.check_env(env)
    agent.reset()
    plans = []
    schedule = Surrogate.schedule
    monkeypatch.setattr(
        Surrogate,
        "schedule",
        lambda self, *given: plans.append(schedule(self, *given)) or plans[-1],
    )
    for seed in (5, 6, 6):
        observation, info = env.reset(seed=seed)
        if seed == 6:
            observation["slice_counters"][0, 0] = np.nan
        over = False
        while not over:
            observation, _, over, _, info = env.step(agent.act(observation, info["action_mask"]))
            if seed == 6 and not over:
                observation["slice_counters"][0, 0] = np.nan
    assert len(plans) == 2 and plans[0].tolist() != plans[1].tolist()


@pytest.mark.parametrize(
    ("actions", "constraints"),
    [
        ("core", {"node_memory_gib": [0.1, 0.6]}),
        ("core", {"max_slices_per_core": 2}),
        ("core_node", {"node_memory_gib": [0.1, 0.6]}),
    ],
)
def test_it_plays_within_the_limits(tmp_path, actions, constraints):
    env = {**TOY, "slices": 8, "actions": actions, "observation": "complete"}
    env["constraints"] = constraints
    agent = Surrogate(**{**SMALL, "members": 1, "updates": 3})
    agent.fit(collected(env, tmp_path, episodes=6))
    played = SpatialSchedulingEnv(**env, on_illegal="raise")
    agent.check_env(played)
    for seed in range(2):
        scoring.play(played, agent, seed, None, {})
        planned = played.schedule
        observation, info = played.reset(seed=seed)
        agent.reset()
        over = False
        while not over:
            action = agent.act(observation, info["action_mask"] if seed else None)
            observation, _, over, _, info = played.step(action)
        # Step by step it keeps the same limits in mind.
        if actions == "core":
            assert played.schedule.cores.tolist() == planned.cores.tolist()


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_measurements_help_and_are_counted(agent, noise):
    env = {**TOY, "noise": noise}
    policies = {"none": agent, "0": Measured(agent, 0), "5": Measured(agent, 5)}
    rows = evaluate(env, policies, [5], 8, 200, 20).rows
    scores = {p: np.array([row.score for row in rows if row.policy == p]) for p in policies}
    assert scores["0"].tolist() == scores["none"].tolist()
    assert policies["5"].used == 5
    assert scores["5"].mean() > scores["0"].mean()
    again = evaluate(env, {"5": Measured(agent, 5)}, [5], 8, 200, 20).rows
    assert [row.actions for row in again] == [row.actions for row in rows if row.policy == "5"]


def test_what_it_lacks_is_said(agent, tmp_path):
    observation, _ = SpatialSchedulingEnv(**TOY).reset(seed=1)
    agent.reset()
    with pytest.raises(CheckpointError, match="observation='complete'"):
        agent.act(observation)
    complete, _ = SpatialSchedulingEnv(**TOY, observation="complete").reset(seed=1)
    path = tmp_path / "agent.safetensors"
    agent.save(path)
    with pytest.raises(CheckpointError, match="check_env"):
        pmoss_agents.load(path).act(complete)
    with pytest.raises(CheckpointError, match=r"call fit\(\)"):
        fresh = Surrogate(**SMALL)
        fresh.check_env(SpatialSchedulingEnv(**TOY))
        fresh.act(complete)
    for name, value in (
        *(("members", 0), ("members", 2**62), ("width", 2**62), ("batch_size", 2**62)),
        *(("tries", -1), ("tries", 10**30), ("inputs", ["slice", "rule"])),
    ):
        with pytest.raises(DescriptionError, match=f"surrogate: {name} = "):
            Surrogate(**{name: value})


def test_data_without_counters_after_the_move_are_refused(data):
    class Blind:
        path, machine = data.path, data.machine

        def column(self, name):
            values = np.array(data.column(name))
            return np.zeros_like(values) if name == "final_counters" else values

    with pytest.raises(DatasetError, match="final_counters: elapsed_us is 0"):
        Pairs(Blind())


def test_a_snapshot_of_another_machine_is_refused(agent):
    env = SpatialSchedulingEnv(**TOY)
    env.reset(seed=1)
    agent.check_env(env)
    context = env.context(np.random.default_rng(0))
    few = dataclasses.replace(context.snapshot, slice_counters=np.ones((3, len(COUNTER_NAMES))))
    agent.reset()
    with pytest.raises(DescriptionError, match="for 16 slices"):
        agent.plan(dataclasses.replace(context, snapshot=few), env.order)
    other = SpatialSchedulingEnv(machine="skylake-x-8n", slices=16, observation="complete")
    complete, _ = other.reset(seed=1)
    complete["incumbent_tiles"] = np.full(16, 90)
    with pytest.raises(DescriptionError, match="another machine"):
        agent.act(complete)


@pytest.mark.parametrize("value", [-np.inf, np.inf, -1.0, 1e38])
def test_impossible_counters_count_as_none(agent, value):
    env = SpatialSchedulingEnv(**TOY, observation="complete")
    observation, _ = env.reset(seed=1)
    agent.check_env(env)
    for rows in (slice(2), slice(None)):
        plans = []
        for shown in (value, 0.0):
            counters = observation["slice_counters"].copy()
            counters[rows] = shown
            agent.reset()
            agent.act({**observation, "slice_counters": counters})
            plans.append(agent._tiles)
        assert np.array_equal(*plans)
    env.close()


def test_a_checkpoint_without_inputs_has_the_sums_alone(data, tmp_path):
    old = Surrogate(**{**SMALL, "updates": 2, "inputs": list(SUMS)})
    old.fit(data)
    old.save(tmp_path / "old.safetensors")
    header, arrays = checkpoints.read(tmp_path / "old.safetensors")
    del header["config"]["inputs"]
    again = Surrogate.from_checkpoint(tmp_path / "old.safetensors", header, arrays)
    assert again.config.inputs == SUMS


SMALL_PAIRS = {
    **{"judge_updates": 100, "updates": 160, "samples": 16},
    **{"width": 24, "features": 8, "heads": 2, "demands": 4},
}


def fitted(data, **changes):
    pair_agent = PairPolicy(**{**SMALL_PAIRS, **changes})
    pair_agent.fit(data)
    return pair_agent


@pytest.fixture(scope="module")
def pair_agent(data):
    return fitted(data)


@pytest.fixture
def scored(data):
    """A network with random weights, and its scores of an incumbent."""
    torch.manual_seed(0)
    topology = Topology(data.machine)
    sizes = {"width": 24, "hidden": 32, "features": 8, "heads": 2, "blocks": 1, "demands": 4}
    network = PairNetwork(len(COUNTER_NAMES), **sizes)
    for part in (network.time.weight, network.ends, network.last):
        torch.nn.init.normal_(part, std=0.3)
    pairs = Pairs(data)
    network.set_up(pairs.counters[0].flatten(0, 1))
    counters, columns = pairs.counters[0][0], pairs.columns[0][0]
    with torch.no_grad():
        return network, topology, counters, columns, network(topology, counters, columns)


def test_the_likelihood_is_that_of_the_draws(scored):
    _, topology, _, _, scores = scored
    workers = len(topology.tiles)
    noise = np.random.default_rng(0).gumbel(size=(16, 4000, workers)).astype(np.float32)
    plans = draw(scores, topology, noise)
    first = int(torch.argsort(-scores.times.mean(1), stable=True)[0])
    # The first core is chosen from empty cores: its chances need no history.
    shares = np.bincount(plans[:, first], minlength=workers) / 4000
    empty = scores.times[first]
    inner = scores.slices[first] + scores.cores + empty[:, None] * scores.ends
    logits = torch.nn.functional.silu(inner) @ scores.last - scores.haste * empty
    np.testing.assert_allclose(shares, logits.softmax(0).detach().numpy(), atol=0.03)
    with torch.no_grad():
        likely, unlikely = (
            np.mean([log_likelihood(scores, topology, torch.from_numpy(p)) for p in drawn])
            for drawn in (plans[:200], np.random.default_rng(1).integers(0, workers, (200, 16)))
        )
    assert likely > unlikely


def test_order_and_names_of_slices_and_cores_do_not_matter(scored):
    network, topology, counters, columns, scores = scored
    shuffled = torch.from_numpy(np.random.default_rng(0).permutation(16))
    alike = torch.nonzero(topology.caches[0]).squeeze(1)
    trade = torch.arange(len(topology.tiles))
    trade[alike] = alike.flip(0)
    with torch.no_grad():
        other = network(topology, counters[shuffled], trade[columns[shuffled]])
    torch.testing.assert_close(scores.times[shuffled], other.times[:, trade])


def test_it_learns_from_its_own_draws(pair_agent, data):
    policies = {"pair-policy": pair_agent, "untrained": fitted(data, judge_updates=1, updates=1)}
    # Nothing that it learns, or knows without learning, but that work adds up.
    frozen = {"judge_updates": 1, "updates": 2, "learning_rate": 0.0, "draw_rate": 0.0}
    for seed in range(3):
        policies[f"frozen {seed}"] = fitted(data, **frozen, seed=seed)
    policies |= {"lpt": SchedulePolicy("lpt")}
    mean = mean_scores(TOY, policies)
    assert mean["pair-policy"] > mean["untrained"] + 10 and mean["pair-policy"] > 50
    assert max(mean[f"frozen {seed}"] for seed in range(3)) < mean["lpt"] + 10


def test_it_learns_from_several_machines(data, tmp_path):
    other = collected({**TOY, "machine": "random:1"}, tmp_path / "other", episodes=6)
    pair_agent = PairPolicy(**{**SMALL_PAIRS, "judge_updates": 6, "updates": 12})
    metrics = pair_agent.fit(Several([data, other]))
    assert pair_agent.updates == 12 and metrics["likelihood"] > 0
    assert pair_agent.dataset["id"] == f"{data.id} + {other.id}"
    rows = evaluate({**TOY, "machine": "random:1"}, {"both": pair_agent}, [101], 1, 20, 5).rows
    assert [row.illegal_actions for row in rows] == [0]


def test_what_it_cannot_do_is_said(tmp_path):
    with pytest.raises(DescriptionError, match="multiple of heads"):
        PairPolicy(features=9)
    with pytest.raises(CheckpointError, match=r"call fit\(\)"):
        PairPolicy().save(tmp_path / "agent.safetensors")
