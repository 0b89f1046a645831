import numpy as np
import pytest

import pmoss_agents
from pmoss_agents import OnlineAgent
from pmoss_agents.threads import run_episode
from pmoss_env.envs.threads import ThreadSchedulingEnv
from pmoss_env.errors import CheckpointError, DescriptionError

NAMES = pmoss_agents.agent_names("threads")


def short(program="fillrandom", requests=1_500_000):
    return ThreadSchedulingEnv(program=program, requests=requests, on_illegal="raise")


@pytest.mark.parametrize("name", NAMES)
def test_agents_act_legally_and_come_back_from_files(name, tmp_path):
    agent = pmoss_agents.make(name)
    if isinstance(agent, OnlineAgent):
        agent.fit(short("mixed50"), checkpoint=tmp_path / "agent.safetensors")
    else:
        assert agent.learns == "nothing"
        agent.save(tmp_path / "agent.safetensors")
    again = pmoss_agents.load(tmp_path / "agent.safetensors")
    assert run_episode(short(), agent, seed=5) == run_episode(short(), again, seed=5)


def test_a_bandit_that_was_stopped_ends_as_one_that_was_not(tmp_path):
    def stop(done, total, metrics):
        raise KeyboardInterrupt

    path = tmp_path / "agent.safetensors"
    whole = pmoss_agents.make("threads-linucb", episodes=2)
    whole.fit(short())
    with pytest.raises(KeyboardInterrupt):
        pmoss_agents.make("threads-linucb", episodes=2).fit(short(), progress=stop, checkpoint=path)
    resumed = pmoss_agents.load(path)
    resumed.fit(short())
    for name, array in whole._state()[0].items():
        np.testing.assert_array_equal(array, resumed._state()[0][name], err_msg=name)


def test_the_hybrid_begins_as_the_rule_and_overrules_when_sure():
    hybrid = pmoss_agents.make("threads-hybrid")
    observation, info = short().reset(seed=0)
    highest = int(np.flatnonzero(info["action_mask"])[-1])
    chosen = []
    for _ in range(40):
        chosen.append(hybrid.act(observation, info["action_mask"]))
        # Whatever the rule moves, bandwidth falls by a hundredth: half a thread's share.
        factor = 0.99 if chosen[-1] == highest else 1.0
        observation = {**observation, "core_inputs": observation["core_inputs"] * factor}
    assert chosen[:3] == [highest] * 3
    assert chosen[-5:] == [0] * 5
    hybrid.reset()
    assert hybrid.act(observation, info["action_mask"]) == highest


def test_bad_input_is_refused():
    agent = pmoss_agents.make("threads-linucb")
    observation, _ = short().reset(seed=0)
    with pytest.raises(DescriptionError, match="allows nothing"):
        agent.act(observation, np.zeros(49))
    with pytest.raises(CheckpointError, match="inputs"):
        agent.act({**observation, "inputs": np.zeros(3)})
    with pytest.raises(DescriptionError, match="alpha"):
        pmoss_agents.make("threads-linucb", alpha=-1.0)
