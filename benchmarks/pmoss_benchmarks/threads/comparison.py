"""Methods against each other on the seven programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents import Agent
from pmoss_agents.threads import run_episode
from pmoss_benchmarks.threads.studies import PATTERNS
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
#: Methods that a bandit is compared with.
OTHERS = ("scheduling-domain", "rule")
READS = ("readrandom", "readseq")
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

    def ratio(self, program: str, first: str, second: str, what: str = "seconds") -> float:
        """One method's mean over that of another."""
        return self.mean(program, first, what) / self.mean(program, second, what)

    def loss(self, programs: Sequence[str], method: str, others: Sequence[str]) -> float:
        """The most by which a method takes longer than the best, as a share."""
        return max(
            self.mean(p, method) / min(self.mean(p, other) for other in others) - 1.0
            for p in programs
        )

    def total(self, method: str) -> float:
        """Seconds over all programs, mean over the seeds."""
        return sum(self.mean(program, method) for program in self.runs)


def compare(
    programs: Sequence[str],
    agents: Mapping[str, Agent] | Sequence[str] = tuple(METHODS),
    *,
    seeds: int = 5,
    **options: Any,
) -> Comparison:
    """Runs every method on every program, on the same seeds.

    Args:
        programs: keys of ``PROGRAMS``.
        agents: by method; every run begins with the agent as it is here. Or keys of ``METHODS``.
        seeds: runs per cell.
        **options: further arguments of the environment.
    """
    if not isinstance(agents, Mapping):
        agents = {
            name: learned() if name == LEARNED else pmoss_agents.make(METHODS[name])
            for name in agents
        }
    return Comparison(
        {
            program: {
                name: [
                    run_episode(
                        ThreadSchedulingEnv(program=program, **options), deepcopy(agent), seed=seed
                    )
                    for seed in range(seeds)
                ]
                for name, agent in agents.items()
            }
            for program in programs
        }
    )


@cache
def learned() -> Agent:
    """The bandit of LEARNED before a comparison."""
    agent = pmoss_agents.make(METHODS[LEARNED])
    for lesson in range(_LESSONS):
        for program in _LESSON_PROGRAMS:
            env = ThreadSchedulingEnv(program=program, requests=_LESSON_REQUESTS)
            run_episode(env, agent, seed=_FIRST_LESSON_SEED + lesson)
    return agent


def bandit_times(comparison: Comparison, bandit: str = "linucb") -> dict[str, float]:
    """Figures of the paper's section 9.2.1, with a bandit in the place of the paper's."""
    return {
        "reads: time saved by linucb against scheduling-domain, best": max(
            1.0 - comparison.ratio(p, bandit, "scheduling-domain") for p in READS
        ),
        "reads: rule / linucb - 1, best": max(
            comparison.ratio(p, "rule", bandit) - 1.0 for p in READS
        ),
        "four patterns: linucb / the best method - 1, worst": comparison.loss(
            PATTERNS, bandit, (*OTHERS, bandit)
        ),
    }


def bandit_latencies(late: Comparison, bandit: str = "linucb") -> dict[str, float]:
    """Figures of its section 9.2.2, of runs with P99_REQUESTS."""
    return {
        f"fillrandom, 960k requests: P99 saved against {other}": 1.0
        - late.ratio("fillrandom", bandit, other, "p99_ms")
        for other in OTHERS
    }
