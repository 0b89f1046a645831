"""One environment step on the analytic backend, beside the model alone and CartPole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from pmoss_benchmarks.report import Figure, seconds_of
from pmoss_env.backends import make_backend
from pmoss_env.backends.analytic import AnalyticBackend
from pmoss_env.types import CoTenant, Instance

MOVE = "analytic model alone, one move"
PLACE = "analytic model alone, a whole schedule"
CO_TENANTS = "analytic model alone, other co-tenants of an instance"
INSTANCE = "analytic model alone, a new instance"
SNAPSHOT = "analytic model alone, a snapshot"
#: Of all but moves and steps, in a round.
CALLS = 64
STEP_GOAL_US = 12.0
CARTPOLE_GOAL = 3.0
STEPS = 256
#: Microseconds.
MODEL_GOALS = {MOVE: 5.0, PLACE: 40.0, CO_TENANTS: 100.0, SNAPSHOT: 100.0}


def measure_environment(rounds: int = 7, **_: Any) -> list[Figure]:
    """CPU time per step at 256 slices and 56 workers, and of what the model is asked."""
    env = gymnasium.make("pmoss/SpatialScheduling-v0", reward="improvement")
    cartpole = gymnasium.make("CartPole-v1")
    step, balance = _episode(env), _cartpole(cartpole)
    step()
    balance()
    # In turn, so that both see the same host.
    pairs = [(*seconds_of(step, 1), *seconds_of(balance, 1)) for _ in range(rounds)]
    env.close()
    ours, theirs = zip(*pairs, strict=True)
    mine = _per_call("environment step, improvement reward", ours, STEPS)
    ratio = Figure.of(
        "environment step / CartPole-v1 step", "x", [a / b for a, b in pairs], note="CPU time"
    )
    return [
        mine.with_goal(f"<= {STEP_GOAL_US:g} us", mine.median <= STEP_GOAL_US),
        ratio.with_goal(f"<= {CARTPOLE_GOAL:g} x", ratio.median <= CARTPOLE_GOAL),
        *_model(rounds),
        _per_call("CartPole-v1 step, for scale", theirs, STEPS),
    ]


def _per_call(name: str, seconds: Sequence[float], calls: int) -> Figure:
    values = [1e6 * one / calls for one in seconds]
    return Figure.of(name, "us", values, note=f"CPU time, {calls} a round")


def _model(rounds: int) -> list[Figure]:
    """The analytic model alone, as Python calls it."""
    backend = make_backend("analytic", machine="skylake-x-8n", workload="ycsb-a", slices=256)
    assert isinstance(backend, AnalyticBackend)
    rng = np.random.default_rng(0)
    workers = backend.machine.workers
    tenants = [(CoTenant("memory_stream", node, 0.5),) for node in range(backend.machine.nodes)]
    # Two schedules in turn: a slice that is where it should go would cost nothing.
    schedules = [backend.machine.local_schedule(rng.choice(workers, STEPS)) for _ in range(2)]
    backend.place(schedules[0])

    def move() -> None:
        schedules.reverse()
        for s, core in enumerate(schedules[0].cores.tolist()):
            backend.move(s, core)

    def place() -> None:
        for at in range(CALLS):
            schedule = schedules[at % 2]
            backend.model.place(schedule.cores, schedule.nodes)

    def set_co_tenants() -> None:
        for at in range(CALLS):
            backend.set_instance(Instance(0, tenants[at % len(tenants)]))
        backend.place(schedules[0])

    def set_instance() -> None:
        for seed in range(CALLS):
            backend.set_instance(Instance(seed + 1))
        backend.place(schedules[0])

    def snapshots() -> None:
        for at in range(CALLS):
            # So that no sum of the last one is known.
            backend.model.place(schedules[at % 2].cores, schedules[at % 2].nodes)
            backend.model.snapshot()

    figures = []
    for name, work, calls in (
        (MOVE, move, STEPS),
        (PLACE, place, CALLS),
        (CO_TENANTS, set_co_tenants, CALLS),
        (INSTANCE, set_instance, CALLS),
        (SNAPSHOT, snapshots, CALLS),
    ):
        work()
        seconds = seconds_of(work, rounds)
        if name == SNAPSHOT:
            seconds = [
                both - one for both, one in zip(seconds, seconds_of(place, rounds), strict=True)
            ]
        figure = _per_call(name, seconds, calls)
        goal = MODEL_GOALS.get(name)
        if goal is not None:
            figure = figure.with_goal(f"<= {goal:g} us", figure.median <= goal)
        figures.append(figure)
    return figures


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


def _cartpole(env: gymnasium.Env[Any, Any]) -> Callable[[], None]:
    def work() -> None:
        env.reset(seed=0)
        for step in range(STEPS):
            _, _, terminated, truncated, _ = env.step(step % 2)
            if terminated or truncated:
                env.reset()

    return work
