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
from pmoss_env.types import Instance

#: What the agent goes by in tables: as it ships, and after it has learned from this server's log.
AGENT, TUNED = "generalist", "generalist, tuned"
#: What measures nothing, or asks the model as often as it likes.
RULES = (
    "random",
    "grouped",
    "spread",
    "mixed",
    "lpt",
    "lpt-capacity",
    "greedy-capacity",
    "best-fit",
)
SEARCH = "local-search"
#: Rules from whose schedule a search begins that may measure as often as the agent.
STARTS = ("best-fit", "greedy-capacity")
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
        learning_rate: of it, at its highest.
        measurements: schedules that it may run on the server before it decides, where it may.
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
    agent: str = "pmoss/generalist-v0"
    logged_episodes: int = 100
    logged_seed: int = 7
    updates: int = 200
    learning_rate: float = 1e-3
    measurements: int = 10
    seeds: tuple[int, ...] = (101, 102, 103, 104, 105)
    episodes_per_seed: int = 3
    search_budget: int = 2000
    host_records: int = 1_000_000
    host_rounds: int = 16
    host_round_seconds: float = 0.25

    def with_measurements(self, name: str) -> str:
        """What a policy goes by in tables that may measure."""
        return f"{name} + {self.measurements}"

    def measured(self, policy: str) -> int:
        """Schedules that a policy of the tables runs in each episode before it decides."""
        if policy == SEARCH:
            return self.search_budget
        return self.measurements if policy.endswith(f" + {self.measurements}") else 0


FULL = Plan()
#: Seconds of work on the toy machine: for tests, and to see that everything is installed.
QUICK = Plan(
    env_kwargs={**FULL.env_kwargs, "machine": "toy", "slices": 16},
    logged_episodes=12,
    updates=3,
    measurements=3,
    seeds=(101, 102),
    episodes_per_seed=1,
    search_budget=200,
    host_records=50_000,
    host_rounds=3,
    host_round_seconds=0.1,
)


def kind_of(policy: str) -> str:
    """What a policy of the tables is: "learned", "search" or "rule"."""
    if policy.split(" + ")[0] in (AGENT, TUNED):
        return "learned"
    return "search" if policy == SEARCH or " + " in policy else "rule"


@dataclass(frozen=True)
class DemoResult:
    """The demo's results.

    Attributes:
        plan: how much of everything.
        host: what ran on this host.
        summaries: a row per policy.
        instance: of an example's episode.
        comparison: of its schedules: the best of those that look at no counters, and the tuned
            agent's, once it has measured.
        seconds: by stage.
    """

    plan: Plan
    host: Host
    summaries: list[Summary]
    instance: Instance
    comparison: Comparison
    seconds: dict[str, float]
