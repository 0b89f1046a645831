"""`pmoss benchmark published`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish
from pmoss_env.cli.console import console, table


def published(
    folder: Annotated[
        Path,
        typer.Argument(help="A clone of the original's repository, or your copy of its files."),
    ],
    machine: Annotated[
        list[str] | None, typer.Option(help="By the name of its machine file; repeatable.")
    ] = None,
    instances: Annotated[int, typer.Option(min=2, help="Workload instances of each.")] = 20,
    budget: Annotated[int, typer.Option(help="Model evaluations of the search.")] = 2_000,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """What the schedules that P-MOSS published are worth by the analytic model.

    The files have no licence: a report holds figures alone, and no schedule.

    Example: pmoss benchmark published ../L-PMOSS --machine intel_sb_4s_4n
    """
    from pmoss_benchmarks.spatial.published import (
        LOADS,
        PublishedOptions,
        measure_cell,
        published_cells,
    )

    options = PublishedOptions(instances, budget)
    cells = published_cells(folder, machine)
    work = partial(measure_cell, options, folder)
    results = finish(work, cells, asdict(options), out, processes, "published")
    for result in results:
        console.print(
            table(
                f"{result['machine']}, workload {result['workload']}: mean Mq/s of "
                f"{instances} instances",
                ["schedule", *(f">{load}" for load in LOADS)],
                [
                    (name, *(f"{sum(row[load]) / len(row[load]):.1f}" for load in LOADS))
                    for name, row in result["rows"].items()
                ],
            )
        )
        for name, test in result["awareness"].items():
            console.print(
                f"{name}: its busiest core has {test['busiest']:.2f} times the mean load; with its "
                f"slices exchanged at random {test['exchanged']:.2f}, and {test['as_good']:.0%} of "
                "the exchanges are as good"
            )
