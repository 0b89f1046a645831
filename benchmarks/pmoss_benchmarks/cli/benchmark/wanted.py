"""`pmoss benchmark wanted`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish
from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.pairs import pairs


def wanted(
    task: Annotated[
        str, typer.Option(help="A committed task of spatial scheduling.")
    ] = "toy-btree-ycsb-a-busy-core",
    agent: Annotated[
        str, typer.Option(help="Learns from data, and takes a wanted throughput.")
    ] = "decision-transformer",
    tier: Annotated[str, typer.Option(help="Of the data.")] = "mixed",
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="field=value of the agent's config.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings.")] = 1,
    episodes: Annotated[int, typer.Option(min=1, help="Of the evaluation.")] = 10,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Evaluations of the searches for the best.")
    ] = None,
    references: Annotated[
        Path, typer.Option(help="Folder of `pmoss benchmark references`; missing ones are made.")
    ] = Path("runs/references"),
    data: Annotated[
        Path | None, typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or its default.")
    ] = None,
    agents: Annotated[
        Path | None,
        typer.Option(help="Folder of trained agents; the same command goes on from them."),
    ] = None,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """What an agent serves when a share of the best throughput is wanted, from 0.3 to 1.1.

    Example: pmoss benchmark wanted --budget 400 --episodes 4
    """
    from pmoss_benchmarks.offline.wanted import (
        FORMAT,
        WantedCell,
        WantedOptions,
        data_of,
        measure_cell,
    )
    from pmoss_benchmarks.spatial.references import LONG_BUDGET
    from pmoss_datasets.catalog import default_root

    options = WantedOptions(
        task,
        agent,
        tier,
        episodes=episodes,
        budget=budget or LONG_BUDGET,
        changes=pairs(changes),
        folder=str(data or default_root()),
        references=str(references),
        agents=str(agents or ""),
    )
    with progress_bar("data") as bar:
        data_of(options, bar, processes)
    cells = [WantedCell(task, seed) for seed in range(seeds)]
    work = partial(measure_cell, options)
    results = finish(work, cells, options.settings, out, processes, "wanted", format=FORMAT)
    rows = [
        (
            str(found["seed"]),
            f"{found['correlation']['value']:.2f}",
            *(f"{one['value']:.2f}" for one in found["curve"]),
        )
        for found in results
    ]
    columns = ["seed", ">ranks", *(f">{share:g}" for share in options.shares)]
    console.print(table(f"{task}: share served of the best, by the share wanted", columns, rows))
