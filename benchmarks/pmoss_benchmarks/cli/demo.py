"""`pmoss demo`: from a running index to a learned schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.summaries import print_summaries
from pmoss_env.cli.console import Stages, console, table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that is written.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Of dataset, training and schedules.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A toy machine and a few seconds: is all installed?")
    ] = False,
) -> None:
    """The whole idea in minutes: measure this host, collect, train, place, compare.

    Example: pmoss demo --out runs/demo
    """
    from pmoss_benchmarks.demo import AGENT, FULL, QUICK, run_demo
    from pmoss_datasets.domain import find_domain
    from pmoss_datasets.schema import FIRST_DOMAIN

    plan = QUICK if quick else FULL
    with Stages() as progress:
        result = run_demo(plan, out, seed=seed, progress=progress)

    rows = []
    for name, found in result.host.items():
        low, high = min(found.throughputs), max(found.throughputs)
        median = sorted(found.throughputs)[len(found.throughputs) // 2]
        p99 = f"{found.snapshot.latency_p99_us:.0f}"
        rows.append((name, f"{median:.2f}", f"{low:.2f} .. {high:.2f}", p99))
    host = result.host["lpt"].snapshot.provenance["host"]["cpu_model"]
    title = f"This host ({host}): a real B+-tree, {plan.host_records:,} records, YCSB-A, closed"
    console.print(table(title, ["schedule", ">Mq/s", "range", ">p99 us"], rows))

    task = plan.env_kwargs
    print_summaries(
        result.summaries,
        f"{task['machine']}, {task['workload']}, {task['load']} load, {task['interference']}: "
        f"{len(plan.seeds)} seeds x {plan.episodes_per_seed} unseen incumbents",
        find_domain(FIRST_DOMAIN),
        emphasised=AGENT,
    )
    console.print(
        f"Score 0: random schedules; 100: local search with {plan.search_budget} evaluations. "
        f"Mean of the training data: {result.dataset_mean:.1f} Mq/s. Agents trained: "
        f"{plan.training_seeds}; {AGENT} sees raw counters, and measures nothing before it decides."
    )
    times = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in result.seconds.items())
    console.print(f"Time: {times}.")
    console.print(f"Picture: {out / 'demo.png'}   results: {out / 'results.jsonl'}")
