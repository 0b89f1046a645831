"""Running the demo.

First a real B+-tree serves on this host, and is re-scheduled while it does. Then an agent that
ships with the package meets a modelled server of 96 cores. Its co-tenants are of a kind that the
agent never saw. The agent places an index at once. It then learns for less than a minute from what
the server logged, and places again. It is compared with Linux's default, with rules, and with
search, on incumbents that no data hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeVar

import pmoss_agents
from pmoss_agents import OfflineAgent, pretrained
from pmoss_agents.demo.host import Host, nothing_to_gain, watch_host
from pmoss_agents.demo.page import demo_page
from pmoss_agents.demo.picture import draw_demo
from pmoss_agents.demo.plan import (
    AGENT,
    AUTO_NUMA,
    CHECKPOINT,
    DATA,
    LINUX,
    RULES,
    SEARCH,
    TUNED,
    DemoResult,
    Plan,
    Progress,
)
from pmoss_agents.explaining import Comparison
from pmoss_agents.explaining.measuring import Choice, explain
from pmoss_agents.explaining.page import explain_svg
from pmoss_datasets import Dataset, Recipe, collect
from pmoss_datasets.collection import partial_path
from pmoss_datasets.evaluation import EpisodeResult, aggregate, evaluate, write_results
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_env.baselines import make_baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import UnsupportedError
from pmoss_env.extras import require
from pmoss_env.files import write_atomically
from pmoss_env.provenance import MEASURED, provenance

T = TypeVar("T")


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
        folder: made if it is not there; what it holds of an earlier demo is replaced.
        seed: of what runs on this host.
        html: also write ``demo.html``, one page that needs nothing else.
        on_round: called with a line of text for every round on this host.
    """
    require("h5py", "torch")
    agent = pmoss_agents.load(plan.agent)
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    cpu_began = process_time()

    def timed(stage: str, work: Callable[[], T]) -> T:
        began = perf_counter()
        result = work()
        seconds[stage] = perf_counter() - began
        return result

    host: Host | str
    if host := nothing_to_gain():
        on_round(host)
    else:
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
    card = pretrained.card(plan.agent)
    write_results(folder / "results.jsonl", evaluation, agent=card.name, sha256=card.sha256)
    summaries = aggregate(evaluation.rows, trainings=False)
    result = DemoResult(
        plan, host, summaries, _example(plan, evaluation.rows), seconds, process_time() - cpu_began
    )
    write_atomically(folder / "demo.svg", draw_demo(result))
    write_atomically(folder / "chip.svg", explain_svg(result.comparison))
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
    tuned = shipped.renewed(
        updates=plan.updates, batch_size=plan.batch_size, learning_rate=plan.learning_rate
    )
    tuned.fit(
        dataset,
        progress=lambda done, total, metrics: progress("fine-tune the agent", done, total),
    )
    tuned.save(path)
    return tuned


def _policies(plan: Plan, agent: Any, tuned: Any) -> dict[str, Any]:
    """All that play, by name."""
    return {
        **{name: SPATIAL.policy(name) for name in (*RULES, AUTO_NUMA)},
        SEARCH: SchedulePolicy(make_baseline(SEARCH, budget=plan.search_budget)),
        AGENT: agent,
        TUNED: tuned,
    }


def _example(plan: Plan, rows: Sequence[EpisodeResult]) -> Comparison:
    """Linux's default and the tuned agent's schedule of the first episode, measured again."""
    learned = next(row for row in rows if row.policy == TUNED)
    with closing(SpatialSchedulingEnv(**plan.env_kwargs)) as env:
        env.reset(seed=learned.env_seed)
        for action in learned.actions:
            env.step(action)
        choices: dict[str, Choice] = {
            "Linux default": make_baseline(LINUX, shared=True),
            "after learning": env.schedule,
        }
        return explain(env, learned.env_seed, choices)


def _summary(result: DemoResult) -> dict[str, Any]:
    plan = result.plan
    card = pretrained.card(plan.agent)
    return {
        **provenance(["pmoss_agents.demo", "pmoss_agents"], MEASURED),
        "task": dict(plan.env_kwargs),
        "host": asdict(host) if isinstance(host := result.host, Host) else host,
        "agent": {"name": card.name, "sha256": card.sha256, "dataset": dict(card.dataset)},
        "tuning": {
            "episodes": plan.logged_episodes,
            "seed": plan.logged_seed,
            "updates": plan.updates,
            "batch_size": plan.batch_size,
            "learning_rate": plan.learning_rate,
        },
        "shown": {label: summary.policy for label, summary in result.shown.items()},
        "search_budget": plan.search_budget,
        "policies": [asdict(summary) for summary in result.summaries],
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
    }
