"""Training and placing 256 slices with a Decision Transformer of the paper's size, on one core."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import gymnasium

import pmoss_env  # noqa: F401  # registers the environments
from pmoss_agents import Agent, OfflineAgent, make
from pmoss_agents.weights import torch_threads
from pmoss_benchmarks.performance.original_layout import Training
from pmoss_benchmarks.report import Figure, seconds_of
from pmoss_datasets import Behaviour, Recipe, collect

PLACEMENT_GOAL_S = 0.5
#: How many times faster than the original's layout ours has to train.
TRAINING_GOAL = 5.0
#: Trajectories per update.
_BATCH = 4


def measure_decision_transformer(rounds: int = 7, **_: Any) -> list[Figure]:
    """CPU seconds per trajectory in training, and seconds for one whole placement.

    6 layers, 8 heads, 128 wide, 3 T + 1 tokens, T = 256. The weights are those after a few updates:
    they do not change the time.
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
        agent = make("decision-transformer", updates=rounds + 1, batch_size=_BATCH, threads=1)
        assert isinstance(agent, OfflineAgent)
        clocks: list[float] = []
        agent.fit(dataset, progress=lambda done, total, metrics: clocks.append(process_time()))
        # The first update also allocates; it ends where the first difference begins.
        seconds = [(b - a) / _BATCH for a, b in pairwise(clocks)]
        with torch_threads(1):
            original = Training(_BATCH)
            original.update()
            peer = [s / _BATCH for s in seconds_of(original.update, rounds)]
        note = f"batches of {_BATCH}, 1 thread, CPU time"
        figures += [
            Figure.of("our training, the paper's sizes, a trajectory", "s", seconds, note=note),
            Figure.of("training in the original's layout, a trajectory", "s", peer, note=note),
        ]
        ratio = Figure.of(
            "training, the original's layout / ours",
            "x",
            [b / a for a, b in zip(seconds, peer, strict=True)],
            note=note,
        )
        reached = ratio.median >= TRAINING_GOAL
        figures.append(ratio.with_goal(f">= {TRAINING_GOAL:g} x", reached))
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
