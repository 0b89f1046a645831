"""The toy task that agents are tested on, its optimum, and an episode of an agent."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents import Agent
from pmoss_datasets import Dataset, Recipe, collect
from pmoss_env.baselines.exact import exact_schedule

#: One workload and one incumbent: the optimum is one number, and branch and bound finds it.
TOY = {
    "machine": "toy",
    "slices": 8,
    "order": "load",
    "workload_seed": 3,
    "incumbent": "grouped",
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


def optimum() -> float:
    env: Any = gymnasium.make("pmoss/SpatialScheduling-v0", **TOY).unwrapped
    env.reset(seed=0)
    backend = env.session.new_backend()
    best: float = backend.place(exact_schedule(env.context(np.random.default_rng(0), backend)))
    backend.close()
    env.close()
    return best


def collected(env: dict[str, Any], folder: Path) -> Dataset:
    """Forty episodes of the usual mixture, without reference scores."""
    return collect(Recipe(env=env, episodes=40, reference_episodes=0), folder / "dataset")


def check_resumed(
    make: Callable[[], Any], data: Dataset, folder: Path, cuts: Iterable[int]
) -> None:
    """A run that was cut after an update ends with the weights of one that was not."""
    whole = make()
    whole.fit(data)
    for cut in cuts:
        path = folder / f"{cut}.safetensors"
        stopped = make()

        def stop(done: int, total: int, metrics: Any, cut: int = cut) -> None:
            if done == cut:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            stopped.fit(data, progress=stop, checkpoint=path)
        resumed = pmoss_agents.load(path)
        assert resumed.updates == cut
        resumed.fit(data)
        mine, theirs = whole._state()[0], resumed._state()[0]
        assert mine.keys() == theirs.keys()
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
