"""Agents on smaller machines than the one that they were fitted for."""

import numpy as np
import pytest

from pmoss_agents.spatial.base import PaddedAgent
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_datasets.evaluation import evaluate
from pmoss_env.envs.spatial import SpatialSchedulingEnv, meta_names
from pmoss_env.errors import CheckpointError, UnsupportedError
from pmoss_env.machines import load_machine
from tests.agents.spatial.playing import TRANSFORMER, collected

SLICES = {"slices": 8, "order": "load"}
#: Grids of 8 x 8, 4 x 8 and 2 x 4 core tiles.
LARGE, SMALL, TOY = "milan-nps4", "rome-7302", "toy"


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
    assert rows[0].actions == rows[1].actions
    assert rows[2].actions == rows[3].actions


def test_tiles_lie_in_the_corner_and_meta_goes_by_name():
    recorder = Recorder(LARGE)
    policy = PaddedAgent(recorder)
    env = SpatialSchedulingEnv(machine=SMALL, **SLICES)
    observation, info = env.reset(seed=0)
    with pytest.raises(CheckpointError, match="call check_env"):
        policy.act(observation)
    policy.check_env(env)
    tile = policy.act(observation, info["action_mask"])
    assert tile == np.flatnonzero(info["action_mask"])[-1]
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
        policy.check_env(SpatialSchedulingEnv(machine=TOY, slices=9, order="load"))
    with pytest.raises(CheckpointError, match="fit it with this version"):
        PaddedAgent(DecisionTransformer(**TRANSFORMER))


def test_actions_that_name_the_nodes_of_data_are_refused(agent, tmp_path):
    env = {"machine": TOY, "slices": 8, "actions": "core_node"}
    env["constraints"] = {"node_memory_gib": [0.1, 0.6]}
    for policy in (agent, agent.padded()):
        with pytest.raises(UnsupportedError, match="use actions='core'"):
            policy.check_env(SpatialSchedulingEnv(**env))
    with pytest.raises(UnsupportedError, match="an action names the data's node"):
        agent.fit(collected(env, tmp_path, episodes=2))
