"""`pmoss benchmark transfer`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish
from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.pairs import pairs


def transfer(
    machine: Annotated[
        list[str] | None, typer.Option(help="Left out once; repeatable; default: the paper's.")
    ] = None,
    made_up: Annotated[int, typer.Option(min=0, help="Machines of the generator in all data.")] = 4,
    threaded: Annotated[
        int, typer.Option(min=0, help="Made-up machines with two threads per core, beside these.")
    ] = 0,
    partly: Annotated[
        int, typer.Option(min=0, help="Made-up machines that use some second threads, too.")
    ] = 0,
    least_workers: Annotated[
        int, typer.Option(min=1, max=64, help="Made-up machines with fewer are passed over.")
    ] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings without each machine.")] = 1,
    slices: Annotated[int, typer.Option(min=1, help="Of the index.")] = 256,
    interference: Annotated[str, typer.Option(help="Family of co-tenants.")] = "busy_core",
    episodes_of_data: Annotated[
        int, typer.Option(min=4, help="Episodes of each machine's dataset.")
    ] = 100,
    episodes: Annotated[int, typer.Option(min=1, help="Of the evaluation.")] = 20,
    measurements: Annotated[
        int, typer.Option(min=1, help="Schedules that policies may run before they decide.")
    ] = 10,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="field=value of the surrogate's config.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the datasets; default: runs/transfer.")
    ] = None,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """Leave one machine out: learn on all others, and plan on the one that no data are of.

    Example: pmoss benchmark transfer --made-up 2 --episodes 8 --set updates=300
    """
    from pmoss_benchmarks.offline.plan import PAPER_MACHINES
    from pmoss_benchmarks.spatial.transfer import (
        TransferCell,
        TransferOptions,
        data_of,
        measure_cell,
    )

    options = TransferOptions(
        machines=tuple(machine or PAPER_MACHINES),
        made_up=made_up,
        threaded=threaded,
        partly=partly,
        least_workers=least_workers,
        interference=interference,
        slices=slices,
        data=episodes_of_data,
        episodes=episodes,
        measurements=measurements,
        changes=pairs(changes),
        folder=str(data or Path("runs/transfer")),
    )
    cells = [TransferCell(name, seed) for seed in range(seeds) for name in options.machines]
    for name in options.learned_on:
        with progress_bar(f"data of {name}") as bar:
            data_of(options, name, bar, processes)
    work = partial(measure_cell, options)
    results = finish(work, cells, options.settings, out, processes, "transfer")
    names = list(results[0]["policies"])
    rows = [
        (
            found["machine"],
            str(found["seed"]),
            *(f"{found['policies'][name]['score']['value']:.1f}" for name in names),
        )
        for found in results
    ]
    console.print(table("Scores on the machine left out", ["machine", "seed", *names], rows))
