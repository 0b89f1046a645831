"""The base of agents for thread scheduling, and the loop that runs an episode."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np

from pmoss_agents.agent import Agent, Array, Observation
from pmoss_agents.configs import Settings
from pmoss_env.envs.threads.inputs import INPUT_NAMES
from pmoss_env.errors import CheckpointError, DescriptionError


class ThreadAgent(Agent):
    """An agent that decides how many threads of a core to migrate.

    It can act, and can be saved, from the beginning.
    """

    domain = "threads"
    Config: ClassVar[type[Any]] = Settings

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.task = {"inputs": list(INPUT_NAMES)}


def legal_counts(observation: Observation, action_mask: Array | None) -> Array:
    """(k,) ascending: how many threads may be migrated.

    Args:
        observation: of ``pmoss/ThreadScheduling-v0``.
        action_mask: (actions,) 1 = legal; the observation's if None.

    Raises:
        DescriptionError: the mask allows nothing.
        CheckpointError: the observation has other inputs.
    """
    mask = observation["action_mask"] if action_mask is None else action_mask
    legal = np.flatnonzero(mask)
    if not legal.size:
        raise DescriptionError("the action mask allows nothing")
    if observation["inputs"].shape != (len(INPUT_NAMES),):
        raise CheckpointError(
            f"inputs of shape {observation['inputs'].shape}: must be ({len(INPUT_NAMES)},)"
        )
    return legal


def run_episode(
    env: gymnasium.Env[Any, Any], agent: Agent, *, seed: int | None = None
) -> dict[str, float]:
    """Runs one episode; the agent learns from each decision.

    Returns:
        ``seconds``, ``user_seconds``, ``kernel_seconds``, ``requests``, ``p99_ms``, ``moved``
        (threads), ``decisions`` (with a choice) and ``reward``, its mean over them.
    """
    observation, info = env.reset(seed=seed)
    agent.reset()
    moved = decisions = 0
    total = 0.0
    ended = False
    while not ended:
        mask = info["action_mask"]
        decisions += int(mask.sum() > 1)
        action = agent.act(observation, mask)
        observation, reward, terminated, truncated, info = env.step(np.int64(action))
        ended = terminated or truncated
        if not ended:
            agent.observe(float(reward))
        moved += int(info["moved"])
        total += float(reward)
    keys = ("seconds", "user_seconds", "kernel_seconds", "requests", "p99_ms")
    return {
        **{key: float(info[key]) for key in keys},
        "moved": float(moved),
        "decisions": float(decisions),
        "reward": total / max(decisions, 1),
    }
