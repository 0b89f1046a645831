"""Methods against each other on the seven programs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents import Agent
from pmoss_agents.threads import run_episode
from pmoss_env.envs.threads import ThreadSchedulingEnv

#: Agents by the short name in tables. Every run begins with an agent that knows nothing, but for
#: LEARNED: the same bandit with what it has learned before, as the paper's starts (section 8).
LEARNED = "linucb-learned"
METHODS: dict[str, str] = {
    "scheduling-domain": "threads-scheduling-domain",
    "rule": "threads-rule",
    "linucb": "threads-linucb",
    LEARNED: "threads-linucb",
    "hybrid": "threads-hybrid",
    "random": "threads-random",
}
#: Requests of the paper's study of latency.
P99_REQUESTS = 960_000

#: What LEARNED has seen: every pattern so often, shorter, from seeds that no comparison uses.
_LESSONS = 20
_LESSON_PROGRAMS = ("readrandom", "readseq", "fillrandom", "fillseq")
_LESSON_REQUESTS = 3_000_000
_FIRST_LESSON_SEED = 1_000_000


@dataclass(frozen=True)
class Comparison:
    """What the methods took.

    Attributes:
        runs: by program and method, one dict of results per seed.
    """

    runs: dict[str, dict[str, list[dict[str, float]]]]

    def mean(self, program: str, method: str, what: str = "seconds") -> float:
        """The mean over the seeds."""
        return float(np.mean([run[what] for run in self.runs[program][method]]))

    def total(self, method: str) -> float:
        """Seconds over all programs, mean over the seeds."""
        return sum(self.mean(program, method) for program in self.runs)


def compare(
    programs: Sequence[str],
    *,
    methods: Sequence[str] = tuple(METHODS),
    seeds: int = 5,
    **options: Any,
) -> Comparison:
    """Runs every method on every program, on the same seeds.

    Args:
        programs: keys of ``PROGRAMS``.
        methods: keys of ``METHODS``.
        seeds: runs per cell.
        **options: further arguments of the environment.
    """
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    experienced = learned() if LEARNED in methods else None
    for program in programs:
        runs[program] = {}
        for method in methods:
            results = []
            for seed in range(seeds):
                trained = experienced if method == LEARNED else None
                agent = deepcopy(trained) or pmoss_agents.make(METHODS[method])
                env = ThreadSchedulingEnv(program=program, **options)
                results.append(run_episode(env, agent, seed=seed))
            runs[program][method] = results
    return Comparison(runs)


def learned() -> Agent:
    """The bandit of LEARNED before a comparison."""
    agent = pmoss_agents.make(METHODS[LEARNED])
    for lesson in range(_LESSONS):
        for program in _LESSON_PROGRAMS:
            env = ThreadSchedulingEnv(program=program, requests=_LESSON_REQUESTS)
            run_episode(env, agent, seed=_FIRST_LESSON_SEED + lesson)
    return agent
