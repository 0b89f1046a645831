"""Studies of the other two papers: figures of threads and of scans."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.access_path.linear_cost import LinearCost
from pmoss_agents.threads import run_episode
from pmoss_benchmarks.access_path.models import train
from pmoss_benchmarks.access_path.reproduction import CPU, OFFLOAD, PLACES, Measurements
from pmoss_benchmarks.threads.studies import MIXES, PATTERNS, convergence, settled_after
from pmoss_datasets.access_path.scans import AccessPathRecipe, pairs_of, simulate
from pmoss_env.envs.access_path import FEATURES, PATHS
from pmoss_env.envs.threads import ThreadSchedulingEnv

#: Columns of the table of gains, MB.
SIZES = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
_RULE = "threads-rule"
_BANDIT = "threads-linucb"


def alpha_figures(alpha: float, seeds: int) -> dict[str, Any]:
    """What a width of exploration costs a bandit that knows nothing.

    Returns:
        By pattern: "seconds" of each run, the "rule"'s, and the decisions until the width of
        migrating one thread has "settled".
    """
    return {
        program: {
            "seconds": _seconds(program, seeds, alpha=alpha),
            "rule": _of_rule(program, seeds),
            "settled": settled_after(convergence(program, alpha=alpha), action=1),
        }
        for program in PATTERNS
    }


def reward_figures(reward: str, seeds: int) -> dict[str, Any]:
    """What a bandit makes of a form of the reward.

    Args:
        reward: "normalised", or "raw" as the paper has it.
        seeds: runs of each program.

    Returns:
        By program: "seconds" of each run, and the "rule"'s.
    """
    return {
        program: {
            "seconds": _seconds(program, seeds, alpha=0.3, reward=reward),
            "rule": _of_rule(program, seeds),
        }
        for program in (*PATTERNS, *MIXES)
    }


@cache
def _of_rule(program: str, seeds: int) -> list[float]:
    return _seconds(program, seeds)


def _seconds(program: str, seeds: int, alpha: float | None = None, **options: Any) -> list[float]:
    """Run times of a bandit with a width of exploration; None: of the rule."""
    found = []
    for seed in range(seeds):
        agent = (
            pmoss_agents.make(_RULE) if alpha is None else pmoss_agents.make(_BANDIT, alpha=alpha)
        )
        env = ThreadSchedulingEnv(program=program, **options)
        found.append(run_episode(env, agent, seed=seed)["seconds"])
    return found


def gain_figures() -> dict[str, Any]:
    """Offloaded over loaded throughput of a scan with one result.

    Returns:
        "sizes" in MB, and by place the "gain" at each.
    """
    machine = Measurements()
    return {
        "sizes": list(SIZES),
        "gain": {
            place: [
                machine.gb_per_s(OFFLOAD, place, size) / machine.gb_per_s(CPU, place, size)
                for size in SIZES
            ]
            for place in PLACES
        },
    }


def weight_figures() -> dict[str, Any]:
    """The paper's pair of linear models, as they are fitted to simulated scans.

    Returns:
        "scans" that it was fitted to; "terms", the constant and the five features; "scale", what
        each is divided by; and "weights" by path, milliseconds at a scaled feature of 1.
    """
    features, times = pairs_of(simulate(AccessPathRecipe(combinations=200, repeats=4)))
    pair = train("linear pair", features, times)
    assert isinstance(pair, LinearCost)
    weights = pair.models.theta
    return {
        "scans": len(features),
        "terms": ["constant", *FEATURES],
        "scale": np.asarray(pair.scale).tolist(),
        "weights": {path: weights[number].tolist() for number, path in enumerate(PATHS[:2])},
    }
