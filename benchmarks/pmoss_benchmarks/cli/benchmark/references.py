"""`pmoss benchmark references`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.output import check_output


def references(
    suite: Annotated[str, typer.Option(help="Its tasks of spatial scheduling.")] = "core",
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task of the suite's; repeatable.")
    ] = None,
    episodes: Annotated[int, typer.Option(help="Of each task.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Of the evaluation.", min=0)] = 101,
    budget: Annotated[
        int, typer.Option(help="Evaluations of each episode's searches together.", min=24)
    ] = 40_000,
    processes: Annotated[int, typer.Option(help="Worker processes.", min=1)] = 1,
    out: Annotated[Path, typer.Option(help="Folder; one file per task.")] = Path("runs/references"),
) -> None:
    """Search every evaluation episode for long: what a score of 100 is, and a bound above it.

    Interrupted or killed, the same command goes on. With more episodes it adds to what is there.

    Example: pmoss benchmark references --suite quick --episodes 2 --budget 240
    """
    from pmoss_benchmarks.offline import load_suite
    from pmoss_benchmarks.spatial.references import make_references, summary

    check_output(out, folder=True)
    plan = load_suite(suite).part(tasks=task)
    with progress_bar("references") as progress:
        found = make_references(
            out,
            plan.tasks,
            seed,
            episodes,
            budget=budget,
            processes=processes,
            progress=progress,
        )
    rows = [summary(name, mine) for name, mine in found.items()]
    columns = ["task", ">episodes", ">best Mq/s", ">bound Mq/s", ">gap %", "won from"]
    console.print(table("Best of long searches", columns, rows))
    console.print(f"written to {out}")
