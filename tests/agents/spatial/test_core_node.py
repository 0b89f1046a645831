"""Agents where actions choose the node of the data: they play legally, or say that they cannot."""

import pytest

import pmoss_agents
from pmoss_datasets.collection import collect
from pmoss_datasets.recipes import Recipe
from pmoss_datasets.spatial import scoring
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import UnsupportedError

TOY = {"machine": "toy", "slices": 8}
ENV = {
    **TOY,
    "actions": "core_node",
    "observation": "complete",
    "constraints": {"node_memory_gib": [0.1, 0.6]},
}
SMALL = {"members": 1, "updates": 3, "width": 8, "features": 8, "demands": 4, "batch_size": 4}


def collected(folder, env):
    return collect(Recipe(env=env, episodes=6, reference_episodes=0), folder / "one")


@pytest.mark.parametrize("actions", ["core", "core_node"])
def test_the_surrogate_plays_within_the_memory(tmp_path, actions):
    env = {**ENV, "actions": actions}
    agent = pmoss_agents.make("surrogate", **SMALL)
    agent.fit(collected(tmp_path, env))
    played = SpatialSchedulingEnv(**env, on_illegal="raise")
    agent.check_env(played)
    # With the episode's context, and by observations alone.
    for seed in range(2):
        scoring.play(played, agent, seed, None, {})
        observation, info = played.reset(seed=seed)
        agent.reset()
        done = False
        while not done:
            action = agent.act(observation, info["action_mask"] if seed else None)
            observation, _, done, _, info = played.step(action)


def test_an_agent_of_tiles_says_that_it_cannot(tmp_path):
    agent = pmoss_agents.make("bc", updates=1)
    with pytest.raises(UnsupportedError, match="an action names the data's node"):
        agent.fit(collected(tmp_path / "a", ENV))
    agent.fit(collected(tmp_path / "b", TOY))
    other = SpatialSchedulingEnv(**{**ENV, "observation": "full"})
    for one in (agent, agent.padded()):
        with pytest.raises(UnsupportedError, match="use actions='core'"):
            one.check_env(other)


def test_online_agents_refuse_before_they_play():
    agent = pmoss_agents.make("maskable-ppo")
    with pytest.raises(UnsupportedError, match="use actions='core'"):
        agent.fit(ENV)
