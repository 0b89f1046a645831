"""`pmoss benchmark paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared


def paper(
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task of the suite; repeatable.")
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="same-task, saturated, unseen-workload, ...; repeatable; default: all."),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="A name, module:Class of your own, or opponents; repeatable; default: opponents, "
            "surrogate and decision-transformer."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of each agent.", min=1)] = 1,
    processes: shared.Processes = 1,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or ~/.pmoss/datasets."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("runs/offline/paper"),
) -> None:
    """Play every pair of server and workload that P-MOSS reports, closed and under a backlog.

    The paper's eight schedules, rules and searches play beside two agents that learned: its own
    method, at a small size, and this project's. Interrupted, the same command goes on.

    Example: pmoss benchmark paper
    Example: pmoss benchmark paper --task skylake-x-8n-btree-lookups --track same-task
    """
    from pmoss_benchmarks.cli.benchmark.offline import play
    from pmoss_benchmarks.offline import load_suite

    plan = load_suite("paper").part(task, track, seeds)
    play(plan, out, data, agents=agent, processes=processes)
