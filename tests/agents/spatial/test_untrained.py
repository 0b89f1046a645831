"""No input holds the answer: an untrained agent plays like chance, on smaller machines too."""

import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation, TimeLimit

from pmoss_agents.agent import OfflineAgent, OnlineAgent
from pmoss_agents.configs import has_config, read_config
from pmoss_agents.registry import OWN, agent_class
from pmoss_agents.spatial.base import PaddedAgent
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_datasets import Recipe, collect
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.suite import TOY, load_task
from pmoss_env.envs.spatial import SpatialSchedulingEnv, meta_names
from pmoss_env.errors import CheckpointError, MissingExtraError, UnsupportedError
from pmoss_env.machines import load_machine
from tests.agents.spatial.playing import TRANSFORMER, collected

#: Agents that plan in a model which knows that work adds up: they may do what LPT does.
PLANNERS = {"generalist", "pair-policy", "surrogate"}
#: It holds two of the others, whose inputs are their own.
HOLDERS = {"reconstruct"}
SPATIAL = sorted(
    name for name, agent in OWN.items() if agent.domain == "spatial" and name not in HOLDERS
)
EPISODES, SEARCH, DRAWS = 10, 300, 40
#: A planner's chance is large on the toy machine's few cores: it plays the same task on 96. It
#: differs from LPT in which of two equal cores a slice gets, and luck there weighs much: so it
#: plays twice as many episodes, the first ones of the benchmarks.
CORE = "skylake-x-8n-btree-ycsb-a-busy-core"
PLANNED, BENCHMARK = 20, 101
#: One in every run; all five once in a while.
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in (1, 2, 3, 4))]


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A function from a task's name to its environment, some data and its references."""
    made = {}

    def get(name):
        if name not in made:
            env = dict(load_task(name).env)
            episodes = 24 if name == TOY else 4
            recipe = Recipe(env=env, episodes=episodes, tier="mixed", reference_episodes=0)
            made[name] = env, collect(recipe, tmp_path_factory.mktemp("data") / "dataset"), {}
        return made[name]

    return get


def untrained(name, seed, env, data, **changes):
    """An agent as it is before its first update: weights drawn, inputs standardised."""
    config = read_config(name, TOY) if has_config(name) else {}
    config.pop("agent", None)
    agent = agent_class(name)(**{**config, "seed": seed, **changes})
    try:
        agent.check_extras()
    except MissingExtraError as error:
        pytest.skip(str(error))
    agent.updates = 10**9  # so many are done that none is left to do
    if isinstance(agent, OnlineAgent):
        agent.fit(env)
    else:
        assert isinstance(agent, OfflineAgent)
        agent.fit(data)
    return agent


def mean_scores(env, policies, references, seed=7, episodes=EPISODES):
    rows = evaluate(env, policies, [seed], episodes, SEARCH, DRAWS, references=references).rows
    scores = {name: [row.score for row in rows if row.policy == name] for name in policies}
    assert all(len(each) == episodes for each in scores.values())
    return {name: float(np.mean(each)) for name, each in scores.items()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [name for name in SPATIAL if name not in PLANNERS])
def test_an_untrained_agent_plays_like_chance(name, seed, task):
    env, data, references = task(TOY)
    assert mean_scores(env, {name: untrained(name, seed, env, data)}, references)[name] < 20


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [name for name in SPATIAL if name in PLANNERS])
def test_an_untrained_planner_knows_no_more_than_lpt(name, seed, task):
    env, data, references = task(CORE)
    rules = {rule: SchedulePolicy(rule) for rule in ("lpt", "best-fit")}
    policies = {name: untrained(name, seed, env, data), **rules}
    scores = mean_scores(env, policies, references, BENCHMARK, PLANNED)
    assert scores[name] <= scores["lpt"] < scores["best-fit"] - 40


SLICES = {"slices": 8, "order": "load"}
#: Grids of 8 x 8, 4 x 8 and 2 x 4 core tiles.
LARGE, SMALL, TINY = "milan-nps4", "rome-7302", "toy"


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    data = collected({"machine": LARGE, **SLICES}, tmp_path_factory.mktemp("data"), episodes=4)
    agent = DecisionTransformer(**{**TRANSFORMER, "updates": 2})
    agent.fit(data)
    return agent


class Recorder:
    """An agent that keeps the observations and takes the last tile that is allowed."""

    name = "recorder"

    def __init__(self, machine):
        names = list(meta_names(load_machine(machine)))
        grid = [load_machine(machine).rows, load_machine(machine).cols]
        self.task = {"grid": grid, "meta_names": names}
        self.observations = []

    def check_task(self, facts):
        pass

    def reset(self):
        pass

    def encoders(self):
        return []

    def act(self, observation):
        self.observations.append(observation)
        return int(np.flatnonzero(observation["position_mask"])[-1])


def test_on_its_own_machine_padding_changes_nothing(agent):
    policies = {"plain": agent, "padded": PaddedAgent(agent)}
    rows = evaluate({"machine": LARGE, **SLICES}, policies, [101], 2, 20, 5).rows
    assert rows[0].actions == rows[1].actions and rows[2].actions == rows[3].actions


def test_tiles_lie_in_the_corner_and_meta_goes_by_name():
    recorder = Recorder(LARGE)
    policy = PaddedAgent(recorder)
    env = SpatialSchedulingEnv(machine=SMALL, **SLICES)
    observation, info = env.reset(seed=0)
    with pytest.raises(CheckpointError, match="call check_env"):
        policy.act(observation)
    policy.check_env(env)
    assert policy.act(observation, info["action_mask"]) == np.flatnonzero(info["action_mask"])[-1]
    padded = recorder.observations[0]
    rows, cols = load_machine(SMALL).rows, load_machine(SMALL).cols
    for key in ("position_mask", "view_mask", "machine_view", "incumbent_view"):
        assert padded[key].shape[:2] == tuple(recorder.task["grid"])
        np.testing.assert_array_equal(padded[key][:rows, :cols], observation[key])
        assert np.count_nonzero(padded[key]) == np.count_nonzero(observation[key])
    meta = dict(zip(meta_names(env.machine), observation["meta"], strict=True))
    shown = dict(zip(recorder.task["meta_names"], padded["meta"], strict=True))
    assert shown == {name: meta.get(name, 0.0) for name in shown}


def test_a_larger_machine_other_slices_and_old_checkpoints_are_refused(agent):
    policy = PaddedAgent(agent)
    with pytest.raises(CheckpointError, match=r"\[8, 8\] core tiles: skylake-x-8n has \[8, 12\]"):
        policy.check_env(SpatialSchedulingEnv(machine="skylake-x-8n", **SLICES))
    with pytest.raises(CheckpointError, match=r"slices = 8, but .* slices = 9"):
        policy.check_env(SpatialSchedulingEnv(machine=TINY, slices=9, order="load"))
    with pytest.raises(CheckpointError, match="fit it with this version"):
        PaddedAgent(DecisionTransformer(**TRANSFORMER))


def test_another_meta_and_wrapped_observations_are_refused_before_the_first_action(agent):
    other = "milan-nps1"  # of the same grid
    with pytest.raises(CheckpointError, match=r"gb_per_s in meta, where the environment has node"):
        agent.check_env(SpatialSchedulingEnv(machine=other, **SLICES))
    agent.padded().check_env(SpatialSchedulingEnv(machine=other, **SLICES))
    env = SpatialSchedulingEnv(machine=LARGE, **SLICES)
    agent.check_env(TimeLimit(env, 9))
    with pytest.raises(CheckpointError, match=r"FlattenObservation.* lack position_mask"):
        agent.check_env(FlattenObservation(env))


def test_actions_that_name_the_nodes_of_data_are_refused(agent, tmp_path):
    env = {"machine": TINY, "slices": 8, "actions": "core_node"}
    env["constraints"] = {"node_memory_gib": [0.1, 0.6]}
    for policy in (agent, agent.padded()):
        with pytest.raises(UnsupportedError, match="use actions='core'"):
            policy.check_env(SpatialSchedulingEnv(**env))
    with pytest.raises(UnsupportedError, match="an action names the data's node"):
        agent.fit(collected(env, tmp_path, episodes=2))
