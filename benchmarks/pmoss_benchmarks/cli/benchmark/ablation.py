"""`pmoss benchmark ablation`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs


def ablation(
    task: Annotated[
        str, typer.Option(help="A committed task of spatial scheduling.")
    ] = "toy-btree-ycsb-a-busy-core",
    agent: Annotated[
        str, typer.Option(help="Learns from data, and has groups of inputs.")
    ] = "decision-transformer",
    updates: Annotated[int | None, typer.Option(min=1, help="Gradient steps.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="field=value of the agent's config.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings without each group.")] = 2,
    data: Annotated[int, typer.Option(min=4, help="Episodes of the dataset.")] = 200,
    episodes: Annotated[int, typer.Option(min=1, help="Of the evaluation.")] = 10,
    out: Annotated[
        Path | None, typer.Option(help="Rows go here (.jsonl); the same command goes on.")
    ] = None,
) -> None:
    """What each group of inputs is worth: the agent trained without it.

    Example: pmoss benchmark ablation --updates 40 --data 40
    """
    from pmoss_benchmarks.spatial.ablation import run_ablation, summary

    path = Path(out) if out else None
    if path:
        check_output(path)
    with progress_bar("ablation") as bar:
        rows = run_ablation(
            task,
            agent,
            changes={**pairs(settings), **({} if updates is None else {"updates": updates})},
            seeds=seeds,
            data=data,
            episodes=episodes,
            out=path,
            progress=bar,
        )
    cells = [
        (group or "nothing", f"{score:.1f}", f"{loss:+.1f}") for group, score, loss in summary(rows)
    ]
    console.print(table(f"{task}, {agent}", ["left out", ">score", ">lost by it"], cells))
    if path:
        console.print(f"written to {path}")
