"""Running the demo.

First a real B+-tree serves on this host, and is re-scheduled while it does. Then an agent that
ships with the package meets a modelled server of 96 cores. Its co-tenants are of a kind that the
agent never saw. The agent places an index at once. It then learns for less than a minute from what
the server logged, places again, and once more after a few measurements. It is compared with the
papers' schedules, with rules, and with search that may measure as often, on incumbents that no data
hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import pmoss_agents
from pmoss_agents import OfflineAgent, pretrained
from pmoss_agents.demo.host import watch_host
from pmoss_agents.demo.page import demo_page
from pmoss_agents.demo.picture import draw_demo
from pmoss_agents.demo.plan import (
    AGENT,
    CHECKPOINT,
    DATA,
    RULES,
    SEARCH,
    STARTS,
    TUNED,
    DemoResult,
    Plan,
    Progress,
)
from pmoss_agents.explaining import Comparison, Run, compare
from pmoss_datasets import Dataset, Recipe, collect
from pmoss_datasets.collection import partial_path
from pmoss_datasets.evaluation import EpisodeResult, aggregate, evaluate, write_results
from pmoss_datasets.policies import Measured, SchedulePolicy
from pmoss_env.baselines import Context, answer_after, make_baseline, measured_search
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import UnsupportedError
from pmoss_env.extras import require
from pmoss_env.files import write_atomically
from pmoss_env.provenance import MEASURED, provenance
from pmoss_env.types import Instance, Schedule

T = TypeVar("T")
#: What the page and the picture show beside the agent's schedule: it looks at no counters.
_PLAIN = ("grouped", "spread", "mixed", "lpt")


def run_demo(
    plan: Plan,
    folder: Path,
    *,
    seed: int = 0,
    html: bool = False,
    progress: Progress,
    on_round: Callable[[str], None] = lambda line: None,
) -> DemoResult:
    """Does all of it and writes results and picture under ``folder``.

    Args:
        plan: how much.
        folder: made if it is not there; what it holds of an earlier demo is replaced.
        seed: of what runs on this host.
        html: also write ``demo.html``, one page that needs nothing else.
        progress: see Progress.
        on_round: called with a line of text for every round on this host.
    """
    require("h5py", "matplotlib", "torch")
    agent = pmoss_agents.load(plan.agent)
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], T]) -> T:
        began = perf_counter()
        result = work()
        seconds[stage] = perf_counter() - began
        return result

    watch = (plan.host_records, plan.host_rounds, plan.host_round_seconds)
    host = timed(
        "this host",
        lambda: watch_host(*watch, seed=seed, progress=progress, on_round=on_round),
    )
    logged = timed("log", lambda: _log_episodes(plan, folder / DATA, progress))
    tuned = timed("fine-tuning", lambda: _fine_tune(plan, logged, folder / CHECKPOINT, progress))
    policies = _policies(plan, agent, tuned)
    stage = "a server of 96 cores" if plan.env_kwargs["machine"] != "toy" else "a toy server"
    evaluation = timed(
        "comparison",
        lambda: evaluate(
            plan.env_kwargs,
            policies,
            plan.seeds,
            episodes_per_seed=plan.episodes_per_seed,
            search_budget=plan.search_budget,
            progress=lambda done, total: progress(stage, done, total),
        ),
    )
    for policy in policies.values():
        if isinstance(policy, Measured):
            policy.close()
    card = pretrained.card(plan.agent)
    write_results(folder / "results.jsonl", evaluation, agent=card.name, sha256=card.sha256)
    example = _example(plan, evaluation.rows)
    result = DemoResult(plan, host, aggregate(evaluation.rows), *example, seconds)
    draw_demo(result, folder / "demo.png")
    if html:
        write_atomically(folder / "demo.html", demo_page(result))
    write_atomically(folder / "summary.json", json.dumps(_summary(result), indent=2) + "\n")
    return result


def _log_episodes(plan: Plan, path: Path, progress: Progress) -> Dataset:
    """Episodes of the server as an operator has them: bad, plain and good schedules by rules."""
    # An earlier demo that was stopped may have planned otherwise.
    partial_path(path).unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    recipe = Recipe(
        env=plan.env_kwargs,
        episodes=plan.logged_episodes,
        seed=plan.logged_seed,
        reference_episodes=0,
    )
    return collect(
        recipe,
        path,
        lambda done, total: progress("log schedules", done, total),
        overwrite=path.exists(),
    )


def _fine_tune(plan: Plan, dataset: Dataset, path: Path, progress: Progress) -> OfflineAgent[Any]:
    """The agent of the plan after some more updates on these data; its checkpoint is kept."""
    shipped = pmoss_agents.load(plan.agent)
    if not isinstance(shipped, OfflineAgent):
        raise UnsupportedError(f"{plan.agent}: learns from no data")
    tuned = shipped.renewed(updates=plan.updates, learning_rate=plan.learning_rate)
    tuned.fit(
        dataset,
        progress=lambda done, total, metrics: progress("fine-tune the agent", done, total),
    )
    tuned.save(path)
    return tuned


def _policies(plan: Plan, agent: Any, tuned: Any) -> dict[str, Any]:
    """All that play, by name; those with a budget of measurements have it in their name."""
    policies: dict[str, Any] = {name: SchedulePolicy(name) for name in RULES}
    for name in STARTS:
        searching = Measured(SchedulePolicy(_searched(name)), plan.measurements)
        policies[plan.with_measurements(name)] = searching
    policies[SEARCH] = SchedulePolicy(make_baseline(SEARCH, budget=plan.search_budget))
    policies[AGENT] = agent
    policies[TUNED] = tuned
    policies[plan.with_measurements(TUNED)] = Measured(tuned, plan.measurements)
    return policies


def _searched(rule: str) -> Callable[[Context], Schedule]:
    """Search from a rule's schedule, by as many measurements as the context allows."""
    start = make_baseline(rule)

    def search(context: Context) -> Schedule:
        assert context.measurements is not None
        budget = context.measurements.budget
        return answer_after(measured_search(context, start(context)), budget)

    return search


def _example(plan: Plan, rows: list[EpisodeResult]) -> tuple[Instance, Comparison]:
    """The tuned agent's schedule of the first episode and the best plain one, run again."""
    first = [row for row in rows if row.env_seed == rows[0].env_seed]
    plain = max((row for row in first if row.policy in _PLAIN), key=lambda row: row.throughput)
    learned = next(row for row in first if row.policy == plan.with_measurements(TUNED))
    env = SpatialSchedulingEnv(**plan.env_kwargs)

    def run(row: EpisodeResult) -> Run:
        env.reset(seed=row.env_seed)
        for action in row.actions:
            env.step(action)
        return Run(row.policy, env.schedule, env.final_snapshot())

    try:
        comparison = compare(env.machine, run(plain), run(learned))
        return env.instance, comparison
    finally:
        env.close()


def _summary(result: DemoResult) -> dict[str, Any]:
    plan = result.plan
    card = pretrained.card(plan.agent)
    return {
        **provenance(["pmoss_agents.demo", "pmoss_agents"], MEASURED),
        "task": dict(plan.env_kwargs),
        "host": {
            "throughput_mq_per_s": result.host.throughputs,
            "lost_queries": result.host.lost,
            "roles_share_cores": result.host.roles_share_cores,
        },
        "agent": {"name": card.name, "sha256": card.sha256, "dataset": dict(card.dataset)},
        "tuning": {
            "episodes": plan.logged_episodes,
            "seed": plan.logged_seed,
            "updates": plan.updates,
            "learning_rate": plan.learning_rate,
        },
        "measurements": plan.measurements,
        "search_budget": plan.search_budget,
        "policies": [
            {**asdict(summary), "measured": plan.measured(summary.policy)}
            for summary in result.summaries
        ],
        "seconds": result.seconds,
    }
