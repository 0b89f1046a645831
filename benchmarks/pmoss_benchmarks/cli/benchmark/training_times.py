"""`pmoss benchmark training-times`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs


def training_times(
    task: Annotated[
        str, typer.Option(help="A committed task of spatial scheduling.")
    ] = "skylake-x-8n-btree-ycsb-a-busy-core",
    tier: Annotated[str, typer.Option(help="Of the data.")] = "mixed",
    learner: Annotated[
        list[str] | None, typer.Option(help="Only this one; repeatable; default: all.")
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(help="cpu, cuda, or auto: a GPU where there is one; repeatable."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Of each learner on each device.", min=0.0)] = 10.0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="field=value of every config; repeatable.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or ~/.pmoss/datasets."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Rows go here (.jsonl); the same command goes on.")
    ] = None,
) -> None:
    """How long an update of each learner takes, on the CPU and on a GPU.

    Example: pmoss benchmark training-times --learner surrogate --seconds 2
    Example: pmoss benchmark training-times --device cpu --device cuda
    """
    from pmoss_benchmarks.spatial.training_times import LEARNERS, run_training_times
    from pmoss_datasets import Recipe
    from pmoss_datasets.catalog import default_root
    from pmoss_datasets.recipes import tier as tier_of
    from pmoss_datasets.suite import load_task

    if out is not None:
        check_output(out)
    recipe = Recipe.from_dict({**tier_of(tier), "tier": tier, "env": dict(load_task(task).env)})
    with progress_bar("learners") as progress:
        rows = run_training_times(
            recipe,
            data or default_root(),
            learners=learner or tuple(LEARNERS),
            devices=device or ["cpu"],
            seconds=seconds,
            changes=pairs(changes),
            out=out,
            progress=progress,
        )
    cells = [
        [
            row["learner"],
            row["gpu"] or "CPU",
            f"{1e3 * row['median']:.1f} [{1e3 * row['low']:.1f}, {1e3 * row['high']:.1f}]",
            str(row["updates"]),
            f"{row['median'] * row['of'] / 60:.1f}",
        ]
        for row in rows
    ]
    columns = ["learner", "device", ">ms per update", ">timed", ">minutes in all"]
    console.print(table(task, columns, cells))
    if out:
        console.print(f"written to {out}")
