"""Epochs of the continual environment, beside steps of CartPole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import pmoss_env  # noqa: F401  # registers the environments
from pmoss_benchmarks.report import Figure, seconds_of

EPOCH_GOAL_PER_SECOND = 2000.0
#: Epochs as the environment has them by default.
EPOCHS, MOVES, SLICES, ENVIRONMENTS = 100, 8, 256, 16
CARTPOLE_STEPS = 1000


def measure_continual(rounds: int = 7, **_: Any) -> list[Figure]:
    """Epochs with 8 moves each at 256 slices and 56 workers, on one thread."""
    figures = []
    for noise, words in ((0.0, "no noise"), (1.0, "noise as on hardware")):
        options: dict[str, Any] = {
            "slices": SLICES,
            "moves_per_epoch": MOVES,
            "epochs": EPOCHS,
            "noise": noise,
        }
        single = gymnasium.make("pmoss/ContinualScheduling-v1", **options)
        envs = gymnasium.make_vec(
            "pmoss/ContinualScheduling-v1",
            ENVIRONMENTS,
            vectorization_mode="vector_entry_point",
            copy=False,
            **options,
        )
        vector = _figure(f"continual vector environment, {words}", _batch(envs), rounds)
        fast = vector.median >= EPOCH_GOAL_PER_SECOND
        figures += [
            _figure(f"continual environment, {words}", _episode(single), rounds),
            vector.with_goal(f">= {EPOCH_GOAL_PER_SECOND:g}/s", fast),
        ]
    cartpole = gymnasium.make("CartPole-v1")
    cartpole.reset(seed=0)

    def balance() -> None:
        for step in range(CARTPOLE_STEPS):
            if any(cartpole.step(step % 2)[2:4]):
                cartpole.reset(seed=0)

    figures.append(_figure("CartPole-v1 steps, for scale", (balance, CARTPOLE_STEPS), rounds))
    return figures


def _figure(name: str, work: tuple[Callable[[], None], int], rounds: int) -> Figure:
    play, count = work
    play()
    note = f"per CPU second, episodes of {EPOCHS} epochs with {MOVES} moves each and their resets"
    rates = [count / seconds for seconds in seconds_of(play, rounds)]
    return Figure.of(name, "1/s", rates, note="" if "CartPole" in name else note)


def _episode(env: gymnasium.Env[Any, Any]) -> tuple[Callable[[], None], int]:
    _, info = env.reset(seed=0)
    actions = _actions(info["action_mask"], 1)[:, 0]

    def play() -> None:
        env.reset(seed=0)
        for action in actions:
            env.step(action)

    return play, EPOCHS


def _batch(envs: gymnasium.vector.VectorEnv[Any, Any, Any]) -> tuple[Callable[[], None], int]:
    _, infos = envs.reset(seed=0)
    actions = _actions(infos["action_mask"][0], ENVIRONMENTS)

    def play() -> None:
        envs.reset(seed=0)
        for rows in actions:
            envs.step(rows)

    return play, EPOCHS * ENVIRONMENTS


def _actions(mask: Any, environments: int) -> Any:
    """(steps, environments, 2) moves to workers; no slice moves twice before an epoch."""
    rng = np.random.default_rng(0)
    workers = np.flatnonzero(mask[SLICES + 1 :])
    rounds = (EPOCHS, environments)
    slices = np.argsort(rng.random((*rounds, SLICES)), axis=-1)[..., :MOVES]
    tiles = rng.choice(workers, (*rounds, MOVES))
    return np.moveaxis(np.stack([slices, tiles], axis=-1), 2, 1).reshape(-1, environments, 2)
