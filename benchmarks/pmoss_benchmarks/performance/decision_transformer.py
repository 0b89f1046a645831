"""Placing 256 slices with a Decision Transformer of the paper's size, on one core."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import gymnasium

import pmoss_env  # noqa: F401  # registers the environments
from pmoss_agents import Agent, make
from pmoss_benchmarks.report import Figure, seconds_of
from pmoss_datasets import Behaviour, Recipe, collect

PLACEMENT_GOAL_S = 1.0


def measure_decision_transformer(rounds: int = 7, **_: Any) -> list[Figure]:
    """Seconds for one whole placement: 6 layers, 8 heads, 128 wide, 3 T + 1 tokens, T = 256.

    The weights are those after one update: they do not change the time.
    """
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        recipe = Recipe(
            env={"interference": "busy_core", "order": "load"},
            episodes=2,
            tier="random",
            behaviours=(Behaviour("random"),),
            reference_episodes=0,
        )
        dataset = collect(recipe, Path(folder) / "data")
        agent = make("decision-transformer", updates=1, batch_size=1, threads=1)
        agent.fit(dataset)
        env = gymnasium.make("pmoss/SpatialScheduling-v0", reward="terminal", **recipe.env)
        place = _placement(agent, env)
        place()
        for clock, name in ((perf_counter, "wall"), (process_time, "CPU")):
            figure = Figure.of(
                f"256 decisions of the paper's Decision Transformer, {name} time",
                "s",
                seconds_of(place, rounds, clock),
                note="key-value cache, 1 thread; environment steps of terminal reward included",
            )
            figures.append(
                figure.with_goal(f"<= {PLACEMENT_GOAL_S:g} s", figure.median <= PLACEMENT_GOAL_S)
            )
        env.close()
    return figures


def _placement(agent: Agent, env: gymnasium.Env[Any, Any]) -> Callable[[], None]:
    def work() -> None:
        observation, info = env.reset(seed=1)
        agent.reset()
        terminated = False
        while not terminated:
            action = agent.act(observation, info["action_mask"])
            observation, _, terminated, _, info = env.step(action)

    return work
