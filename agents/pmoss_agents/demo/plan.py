"""The sizes of the demo's parts, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pmoss_agents.checkpoints import SUFFIX
from pmoss_agents.demo.host import Host
from pmoss_agents.explaining import Comparison
from pmoss_datasets.evaluation import Summary
from pmoss_env.measuring import AUTO_NUMA as AUTO_NUMA
from pmoss_env.measuring import BALANCED

#: What runs under the operating system alone: any worker answers, and the data lie where they were
#: loaded.
LINUX = BALANCED
#: What the agent goes by in tables: as it ships, and after it has learned from this server's log.
AGENT, TUNED = "generalist", "generalist, tuned"
#: What measures nothing.
RULES = (
    "os-default",
    "os-interleave",
    "random",
    "grouped",
    "spread",
    "mixed",
    "lpt",
    "lpt-capacity",
    "greedy-capacity",
    "best-fit",
)
#: What asks the model as often as it likes.
SEARCH = "local-search"
#: Below the demo's folder: the logged episodes, and the agent that learned from them.
DATA, CHECKPOINT = Path("tuning", "data"), Path("tuning", f"agent{SUFFIX}")
#: progress(stage, done, total): called often within each stage of the demo.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """The sizes of the demo's parts.

    Attributes:
        env_kwargs: the task, arguments of ``pmoss/SpatialScheduling-v0``.
        agent: name of the agent that ships, which plays. It never met this server.
        logged_episodes: of the server, from which the agent goes on learning.
        logged_seed: of these; none of them occurs in the evaluation.
        updates: gradient steps of the fine-tuning.
        batch_size: schedules read in each of them.
        learning_rate: of it, at its highest.
        seeds: of the evaluation; none of them occurs in the agent's data.
        episodes_per_seed: incumbents per seed.
        search_budget: model evaluations of local search, as opponent and as score 100.
        host_records: records of the index on this host.
        host_rounds: that are watched under each schedule of this host.
        host_round_seconds: length of such a round.
    """

    env_kwargs: Mapping[str, Any] = field(
        default_factory=lambda: {
            "machine": "skylake-x-8n",
            "workload": "ycsb-a",
            "load": "closed",
            "interference": "memory_stream",
            "order": "load",
        }
    )
    agent: str = "pmoss/generalist-v1"
    logged_episodes: int = 100
    logged_seed: int = 7
    updates: int = 50
    batch_size: int = 8
    learning_rate: float = 1e-3
    seeds: tuple[int, ...] = (101, 102, 103, 104, 105)
    episodes_per_seed: int = 3
    search_budget: int = 2000
    host_records: int = 1_000_000
    host_rounds: int = 16
    host_round_seconds: float = 0.25


FULL = Plan()
#: Seconds of work on the toy machine: for tests, and to see that everything is installed.
QUICK = Plan(
    env_kwargs={**FULL.env_kwargs, "machine": "toy", "slices": 16},
    logged_episodes=12,
    updates=3,
    seeds=(101, 102),
    episodes_per_seed=1,
    search_budget=200,
    host_records=50_000,
    host_rounds=3,
    host_round_seconds=0.1,
)


@dataclass(frozen=True)
class DemoResult:
    """The demo's results.

    Attributes:
        plan: how much of everything.
        host: what ran on this host, or why nothing did.
        summaries: a row per policy; the first is Linux's default.
        comparison: of an episode's schedules: Linux's default, and the tuned agent's.
        seconds: wall time by stage.
        cpu_seconds: processor time of all stages.
    """

    plan: Plan
    host: Host | str
    summaries: list[Summary]
    comparison: Comparison
    seconds: dict[str, float]
    cpu_seconds: float

    @property
    def rows(self) -> dict[str, Summary]:
        """Those of tables: what is shown, and Linux's default with automatic NUMA balancing."""
        linux, *others = self.shown.items()
        balanced = next(each for each in self.summaries if each.policy == AUTO_NUMA)
        return dict([linux, ("Linux, AutoNUMA on", balanced), *others])

    @property
    def shown(self) -> dict[str, Summary]:
        """The five that pictures show, by what they are called there."""
        by_policy = {summary.policy: summary for summary in self.summaries}
        best = max((by_policy[name] for name in RULES), key=lambda rule: rule.throughput)
        return {
            "Linux default": by_policy[LINUX],
            f"best rule: {best.policy}": best,
            "agent, at once": by_policy[AGENT],
            f"agent, after {self.plan.logged_episodes} episodes": by_policy[TUNED],
            f"search, {self.plan.search_budget:,} evaluations": by_policy[SEARCH],
        }
