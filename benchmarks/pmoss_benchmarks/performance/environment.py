"""One environment step on the analytic backend, beside the model alone and CartPole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from pmoss_benchmarks.report import Figure, seconds_of
from pmoss_env.backends import IncrementalBackend, make_backend

STEP_GOAL_US = 40.0
STEPS = 256


def measure_environment(rounds: int = 7, **_: Any) -> list[Figure]:
    """CPU time per step at 256 slices and 56 workers."""
    env = gymnasium.make("pmoss/SpatialScheduling-v0", reward="improvement")
    step = _per_step("environment step, improvement reward", _episode(env), rounds)
    figures = [step.with_goal(f"<= {STEP_GOAL_US:g} us", step.median <= STEP_GOAL_US)]
    env.close()
    figures.append(_per_step("analytic model alone, one move", _moves(), rounds))
    cartpole = gymnasium.make("CartPole-v1")
    figures.append(_per_step("CartPole-v1 step, for scale", _cartpole(cartpole), rounds))
    return figures


def _per_step(name: str, work: Callable[[], None], rounds: int) -> Figure:
    work()
    values = [1e6 * seconds / STEPS for seconds in seconds_of(work, rounds)]
    return Figure.of(name, "us", values, note="CPU time, 256 steps a round")


def _episode(env: gymnasium.Env[Any, Any]) -> Callable[[], None]:
    rng = np.random.default_rng(0)

    def prepare() -> list[int]:
        _, info = env.reset(seed=0)
        workers = np.flatnonzero(info["action_mask"])
        return [int(tile) for tile in rng.choice(workers, STEPS)]

    actions = prepare()
    fresh = True

    def work() -> None:
        nonlocal fresh
        if not fresh:
            env.reset(seed=0)
        fresh = False
        for action in actions:
            env.step(action)

    return work


def _moves() -> Callable[[], None]:
    backend = make_backend("analytic", machine="skylake-x-8n", workload="ycsb-a", slices=256)
    assert isinstance(backend, IncrementalBackend)
    rng = np.random.default_rng(0)
    workers = backend.machine.workers
    backend.place(backend.machine.local_schedule(rng.choice(workers, 256)))
    # Two schedules in turn: a slice that is where it should go would cost nothing.
    targets = [[int(core) for core in rng.choice(workers, STEPS)] for _ in range(2)]

    def work() -> None:
        targets.reverse()
        for s, core in enumerate(targets[0]):
            backend.move(s, core)

    return work


def _cartpole(env: gymnasium.Env[Any, Any]) -> Callable[[], None]:
    def work() -> None:
        env.reset(seed=0)
        for step in range(STEPS):
            _, _, terminated, truncated, _ = env.step(step % 2)
            if terminated or truncated:
                env.reset()

    return work
