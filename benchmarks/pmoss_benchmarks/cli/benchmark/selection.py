"""`pmoss benchmark selection`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish
from pmoss_env.cli.console import console, progress_bar, table


def selection(
    agent: Annotated[
        list[str] | None,
        typer.Option(help="Learns from data and has a range of settings; repeatable."),
    ] = None,
    task: Annotated[str, typer.Option(help="A committed task.")] = "toy-btree-ycsb-a-busy-core",
    tier: Annotated[str, typer.Option(help="Of the data.")] = "mixed",
    policies: Annotated[
        int, typer.Option(min=2, help="Trained of each method, with settings of its range.")
    ] = 8,
    episodes: Annotated[int, typer.Option(min=2, help="Of the evaluation.")] = 40,
    noise: Annotated[float, typer.Option(help="Of the counters; 1 is as on hardware.")] = 1.0,
    data: Annotated[
        Path | None, typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or its default.")
    ] = None,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """What a method is worth to who may try 8 of its policies: a bandit chooses by noisy pulls.

    Example: pmoss benchmark selection --agent surrogate --agent percentile-bc
    """
    from pmoss_benchmarks.offline.selection import (
        SHOWN,
        SelectionCell,
        SelectionOptions,
        at,
        data_of,
        measure_cell,
    )
    from pmoss_datasets.catalog import default_root

    options = SelectionOptions(
        task, tier, policies, episodes, noise, folder=str(data or default_root())
    )
    cells = [SelectionCell(name) for name in agent or ("surrogate", "percentile-bc")]
    with progress_bar("data") as bar:
        data_of(options, bar, processes)
    results = finish(
        partial(measure_cell, options), cells, options.settings, out, processes, "selection"
    )
    rows = [
        (one["agent"], *(f"{at(one['curve'], pulls)[0]:.1f}" for pulls in SHOWN)) for one in results
    ]
    columns = ["method", *(f">{pulls}" for pulls in SHOWN)]
    console.print(table(f"{task}: score of the policy kept after so many pulls", columns, rows))
