"""LearnedRepair: moves by the times that the network of an agent that ships predicts."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="NOT RUN: the extra agents is missing")

import pmoss_agents
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.evaluation import evaluate
from pmoss_env.errors import CheckpointError, DescriptionError

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


def test_what_it_cannot_ask_is_refused():
    with pytest.raises(CheckpointError, match="forecaster has no network of service"):
        pmoss_agents.make("learned-repair", model="pmoss/forecaster-jobs-v2")
    with pytest.raises(DescriptionError, match=r"memory = 0\.0"):
        pmoss_agents.make("learned-repair", memory=0.0)
    with pytest.raises(CheckpointError, match="call begin"):
        pmoss_agents.make("learned-repair").act({}, None)
