"""`pmoss benchmark migration`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish, verdict
from pmoss_env.cli.console import console, table


def migration(
    machine: shared.Machines = None,
    workload: shared.Workloads = None,
    interference: Annotated[
        list[str] | None, typer.Option(help="Family of co-tenants; repeatable; default: none.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Moves of different slices per cell.")] = 10,
    record_bytes: Annotated[float, typer.Option(help="Bytes that move with a record.")] = 100.0,
    queries: Annotated[int, typer.Option(min=1, help="That each trial executes.")] = 4_000_000,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """How far the model of migration is from the simulator, in time and in what is served.

    Example: pmoss benchmark migration --machine skylake-x-8n --workload ycsb-a --trials 5
    Example: pmoss benchmark migration --machine toy --workload ycsb-a --interference memory_stream
    """
    from pmoss_benchmarks.cells import catalogue_cells
    from pmoss_benchmarks.continual.migration import GOAL, MigrationOptions, measure_cell

    options = MigrationOptions(trials=trials, record_bytes=record_bytes, queries=queries)
    cells = catalogue_cells(machine, workload, ["closed"], interference or ["none"])
    results = finish(
        partial(measure_cell, options), cells, asdict(options), out, processes, "migration"
    )
    rows = [
        (
            *(r[key] for key in ("machine", "workload", "interference")),
            f"{r['simulated_ms']:.1f} ms",
            *(f"{r['time_error'][key]:+.1%}" for key in ("median", "p95")),
            f"{r['model_dip']:.1%}",
            f"{r['simulated_dip']:.1%}",
            f"{r['served_error']['size']:.1%}",
            verdict(r["within"]),
        )
        for r in results
    ]
    columns = ["machine", "workload", "co-tenants", ">time", ">its error", ">95th", ">model's dip"]
    console.print(
        table(
            f"Slices that move, {trials} trials per cell; wanted within {GOAL:.0%}",
            [*columns, ">simulator's", ">error of served", "within"],
            rows,
        )
    )
