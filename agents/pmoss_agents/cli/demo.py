"""`pmoss demo`: from a running index to a learned schedule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pmoss_agents.cli.summaries import print_summaries
from pmoss_env.cli.console import Stages, console


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that is written.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Of what runs on this host.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A toy machine and a few seconds: is all installed?")
    ] = False,
    html: Annotated[
        bool, typer.Option("--html", help="Also write OUT/demo.html: one page, needs nothing else.")
    ] = False,
) -> None:
    """The whole idea in a minute: watch this host, then let an agent place, learn and compare.

    First a real B+-tree serves on this host, and is re-scheduled while it does. A host with one
    memory node is left out. Then an agent that ships with the package meets a modelled server of 96
    cores, whose co-tenants it never saw. It places at once, learns from what the server logged, and
    places again, beside Linux's default, rules and search. OUT/tuning keeps the logged data and the
    new agent.

    Example: pmoss demo --html --out runs/demo
    """
    from pmoss_agents.demo import FULL, QUICK, run_demo
    from pmoss_agents.demo.page import host_in_words, lead
    from pmoss_agents.demo.plan import CHECKPOINT, DATA
    from pmoss_datasets.domain import find_domain
    from pmoss_datasets.schema import FIRST_DOMAIN

    plan = QUICK if quick else FULL
    with Stages() as progress:
        result = run_demo(
            plan, out, seed=seed, html=html, progress=progress, on_round=progress.note
        )
    console.print(host_in_words(result))
    console.print()
    task = plan.env_kwargs
    print_summaries(
        [replace(summary, policy=label) for label, summary in result.rows.items()],
        f"{task['machine']}, {task['workload']}, {task['load']} load, {task['interference']}: "
        f"{len(plan.seeds)} seeds x {plan.episodes_per_seed} unseen incumbents",
        find_domain(FIRST_DOMAIN),
    )
    console.print(
        f"Score 0: random schedules; 100: search with {plan.search_budget:,} evaluations."
    )
    console.print(lead(result))
    console.print(f"The agent is {plan.agent}: pmoss list agents {plan.agent}")
    console.print(f"Tuned: {out / CHECKPOINT}, learned from {out / DATA}")
    times = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in result.seconds.items())
    console.print(f"Time: {times}; {result.cpu_seconds:.0f} s of a processor.")
    page = f"   page: {out / 'demo.html'}" if html else ""
    pictures = f"{out / 'demo.svg'}, {out / 'chip.svg'}"
    console.print(f"Pictures: {pictures}{page}   results: {out / 'results.jsonl'}")
