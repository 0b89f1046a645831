"""The native vector environment, beside memcpy and Gymnasium's own SyncVectorEnv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import VectorEnv

import pmoss_env  # noqa: F401  # registers the environments
from pmoss_benchmarks.report import Figure, seconds_of

MEMCPY_GOAL_PERCENT = 80.0
STEP_GOAL_US = 1.0
SLICES = 256
#: Enough that a step's fixed cost in Python is shared by many.
ENVIRONMENTS = 128
#: SyncVectorEnv's cost does not fall with their number.
FEW = 8
NATIVE, SYNC = "vector_entry_point", "sync"
#: The model is asked at the end of an episode only: what is left is the environment itself.
QUIET: dict[str, Any] = {"reward": "terminal", "measure_every": SLICES}
IMPROVEMENT: dict[str, Any] = {"reward": "improvement"}


def measure_vector_environment(rounds: int = 7, **_: Any) -> list[Figure]:
    """One thread, 256 slices and 56 workers, observations copied out at every step."""
    share, step = _against_memcpy(rounds)
    figures = [share, step]
    for arguments, words in ((QUIET, "model asked once"), (IMPROVEMENT, "improvement reward")):
        figures.append(
            Figure.of(
                f"vector environment / SyncVectorEnv, {words}",
                "x",
                _against_sync(arguments, rounds),
                note=f"CPU time, whole episodes of {FEW} environments with their resets",
            )
        )
    return figures


def _against_memcpy(rounds: int) -> tuple[Figure, Figure]:
    envs = gymnasium.make_vec(
        "pmoss/SpatialScheduling-v0", ENVIRONMENTS, vectorization_mode=NATIVE, **QUIET
    )
    observations, infos = envs.reset(seed=0)
    size = sum(values.nbytes for values in observations.values())
    actions = _actions(infos["action_mask"], SLICES - 1)
    source = np.ones(size, dtype=np.uint8)
    target = np.zeros_like(source)

    def step() -> None:
        for row in actions:
            envs.step(row)

    def copy() -> None:
        for _ in actions:
            np.copyto(target, source)

    copy()
    shares, steps = [], []
    for _ in range(rounds):
        envs.reset(seed=0)
        (stepping,), (copying,) = seconds_of(step, 1), seconds_of(copy, 1)
        shares.append(100.0 * copying / stepping)
        steps.append(1e6 * stepping / actions.size)
    envs.close()
    note = (
        f"CPU time, {ENVIRONMENTS} environments, model asked once, steps within an episode; each "
        f"step writes all observations ({size:,} bytes) to arrays of their own"
    )
    share = Figure.of("vector environment, bytes of observation / memcpy", "%", shares, note=note)
    one = Figure.of("vector environment, step of one of its environments", "us", steps, note=note)
    return (
        share.with_goal(f">= {MEMCPY_GOAL_PERCENT:g} %", share.median >= MEMCPY_GOAL_PERCENT),
        one.with_goal(f"<= {STEP_GOAL_US:g} us", one.median <= STEP_GOAL_US),
    )


def _against_sync(arguments: dict[str, Any], rounds: int) -> list[float]:
    native, sync = (
        gymnasium.make_vec("pmoss/SpatialScheduling-v0", FEW, vectorization_mode=mode, **arguments)
        for mode in (NATIVE, SYNC)
    )
    works = [_episodes(envs) for envs in (sync, native)]
    ratios = []
    for _ in range(rounds):
        (slow,), (fast,) = (seconds_of(work, 1) for work in works)
        ratios.append(slow / fast)
    native.close()
    sync.close()
    return ratios


def _episodes(envs: VectorEnv[Any, Any, Any]) -> Callable[[], None]:
    _, infos = envs.reset(seed=0)
    # The step after the last one resets.
    actions = _actions(infos["action_mask"], SLICES + 1)

    def work() -> None:
        for row in actions:
            envs.step(row)

    return work


def _actions(masks: npt.NDArray[np.int8], steps: int) -> npt.NDArray[np.int64]:
    """(steps, environments) legal tiles."""
    workers = np.flatnonzero(masks[0])
    return np.random.default_rng(0).choice(workers, (steps, masks.shape[0]))
