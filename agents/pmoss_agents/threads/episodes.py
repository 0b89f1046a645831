"""One episode of thread scheduling, with an agent that may learn from it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from pmoss_agents.agent import Agent


def run_episode(
    env: gymnasium.Env[Any, Any], agent: Agent, *, seed: int | None = None, learn: bool = True
) -> dict[str, float]:
    """Runs one episode; the agent learns from each decision if ``learn``.

    Returns:
        ``seconds``, ``user_seconds``, ``kernel_seconds``, ``requests``, ``p99_ms``, ``moved``
        (threads), ``decisions`` (where there was a choice) and ``reward``, its mean over them.
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
        if learn and not ended:
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
