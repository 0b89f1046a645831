"""The toy tasks that agents are tested on, an optimum, and an episode of an agent."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents import Agent
from pmoss_datasets import Behaviour, Dataset, Recipe, collect
from pmoss_datasets.evaluation import evaluate
from pmoss_env.baselines.exact import exact_schedule

#: One workload and one incumbent: the optimum is one number, and branch and bound finds it.
TOY = {"machine": "toy", "slices": 8, "order": "load", "workload_seed": 3, "incumbent": "grouped"}
#: A task with a co-tenant, and a Decision Transformer that learns it at once.
BUSY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}
TRANSFORMER = {
    **{"layers": 2, "heads": 2, "width": 16, "channels": 8, "batch_size": 8},
    **{"updates": 6, "warmup": 2, "learning_rate": 3e-3},
}


def play(agent: Agent, kwargs: dict[str, Any] = TOY, seed: int = 0) -> tuple[list[int], float]:
    """Actions and final throughput of one episode."""
    env = gymnasium.make("pmoss/SpatialScheduling-v0", on_illegal="raise", **kwargs)
    observation, info = env.reset(seed=seed)
    agent.reset()
    actions: list[int] = []
    done = False
    while not done:
        actions.append(agent.act(observation, info["action_mask"]))
        observation, reward, done, _, info = env.step(actions[-1])
        agent.observe(float(reward))
    env.close()
    return actions, info["throughput"]


def check_masks(agent: Agent, kwargs: dict[str, Any]) -> None:
    """No tile is chosen that a mask forbids, whatever else it allows."""
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **kwargs)
    rng = np.random.default_rng(0)
    for seed in range(4):
        observation, info = env.reset(seed=seed)
        agent.reset()
        done = False
        while not done:
            mask = info["action_mask"] * (rng.random(info["action_mask"].size) < 0.3)
            mask = mask if mask.any() else info["action_mask"]
            action = agent.act(observation, mask)
            assert mask[action]
            observation, _, done, _, info = env.step(action)


def mean_scores(env: dict[str, Any], policies: dict[str, Any], episodes: int = 8) -> dict:
    """Of each policy in the same episodes, in which none chooses what is not allowed."""
    rows = evaluate(env, policies, [5], episodes, 200, 20).rows
    assert not any(row.illegal_actions for row in rows)
    return {name: np.mean([row.score for row in rows if row.policy == name]) for name in policies}


def optimum() -> float:
    env: Any = gymnasium.make("pmoss/SpatialScheduling-v0", **TOY).unwrapped
    env.reset(seed=0)
    backend = env.session.new_backend()
    best: float = backend.place(exact_schedule(env.context(np.random.default_rng(0), backend)))
    backend.close()
    env.close()
    return best


def collected(
    env: dict[str, Any], folder: Path, *behaviours: Behaviour, episodes: int = 40
) -> Dataset:
    """Episodes of the usual mixture or of some behaviours, without reference scores."""
    mixture = {"behaviours": behaviours} if behaviours else {}
    recipe = Recipe(env=env, episodes=episodes, seed=1, reference_episodes=0, **mixture)
    return collect(recipe, folder / "dataset")
