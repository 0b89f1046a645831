"""`pmoss benchmark confirm`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_env.cli.console import console, progress_bar, table


def confirm(
    results: Annotated[Path, typer.Option(help="Rows of a study in which policies play.")] = Path(
        "benchmarks/results/core.jsonl"
    ),
    track: Annotated[str, typer.Option(help="Of these results.")] = "same-task",
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task of the track's; repeatable.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this one, and at least one rule; repeatable; default: usual rules, "
            "local-search and every agent that learned."
        ),
    ] = None,
    episodes: Annotated[
        int, typer.Option(help="The first ones that all policies played.", min=1)
    ] = 20,
    finer: Annotated[
        int,
        typer.Option(
            help="Episodes per task that are measured again with twice the queries and twice the "
            "cache lines: how far measurements are off.",
            min=0,
        ),
    ] = 1,
    queries: shared.Queries = None,
    line_sampling: shared.Sampling = 16,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """Measure schedules of the offline benchmark on the simulated server: is the order the same?

    Example: pmoss benchmark confirm --results benchmarks/results/quick.jsonl --queries 20000
    """
    from pmoss_benchmarks.spatial.confirmation import (
        ConfirmationOptions,
        read_tasks,
        run_confirmation,
    )

    tasks = read_tasks(results, track, tasks=task, policies=policy, episodes=episodes)
    options = ConfirmationOptions(queries, line_sampling, finer)
    with progress_bar("confirm") as progress:
        report = run_confirmation(tasks, options, out=out, processes=processes, progress=progress)
    if out:
        console.print(f"written to {out}")
    for name, told in report["tasks"].items():
        _show(name, told["summary"])


def _show(task: str, found: Mapping[str, Any]) -> None:
    rule = found["rule"]
    rows = []
    for name, told in sorted(
        found["policies"].items(), key=lambda item: -float(item[1]["simulated"]["value"])
    ):
        over = told.get("over_rule", {})
        rows.append(
            (
                name,
                *(f"{told[key]['value']:.1f}" for key in ("model", "simulated")),
                *(f"{over[key]['value']:+.1f} %" if over else "" for key in ("model", "simulated")),
                told.get("verdict", ""),
            )
        )
    columns = ["policy", ">model", ">simulated", f">over {rule}, model", ">simulated", "which is"]
    console.print(table(f"{task}: Mq/s, {found['episodes']} episodes", columns, rows))
    if found["ranks"] is not None:
        console.print(f"Correlation of the ranks of the means: {found['ranks']:.2f}")
