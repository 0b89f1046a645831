"""`pmoss benchmark fidelity`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish
from pmoss_env.cli.console import console, table


def fidelity(
    machine: shared.Machines = None,
    index: shared.Indexes = None,
    workload: shared.Workloads = None,
    load: shared.Loads = None,
    schedules: Annotated[int, typer.Option(help="Stratified schedules per cell.")] = 100,
    moves: Annotated[int, typer.Option(help="Single-slice moves per cell.")] = 60,
    queries: shared.Queries = None,
    line_sampling: shared.Sampling = 64,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """The error card: how far the analytic model is from the simulated server.

    Example: pmoss benchmark fidelity --machine milan-nps4 --workload ycsb-a --load closed
    Example: pmoss benchmark fidelity --machine milan-nps4 --workload rtree-ranges-5m
    """
    from pmoss_benchmarks.cells import catalogue_cells
    from pmoss_benchmarks.spatial.fidelity import FidelityOptions, goals_reached, measure_cell

    options = FidelityOptions(
        schedules, moves, simulated={"queries": queries, "line_sampling": line_sampling}
    )
    cells = catalogue_cells(machine, workload, load or ["closed", "saturated"], indexes=index)
    results = finish(
        partial(measure_cell, options), cells, asdict(options), out, processes, "fidelity"
    )
    rows = [
        (
            *(r[key] for key in ("machine", "workload", "load")),
            *(
                f"{r[key]:+.1%}" if key == "bias" else f"{r[key]:.1%}"
                for key in ("median_error", "p95_error", "bias")
            ),
            f"{r['tau']:.3f}",
            f"{r['regret']:.2%}",
            "-" if r["sign_agreement"] is None else f"{r['sign_agreement']:.0%} of {r['moves']}",
            f"{r['spread']:.2f}",
        )
        for r in results
    ]
    columns = ["machine", "workload", "load", ">median", ">95th", ">bias", ">tau", ">regret"]
    console.print(
        table(
            f"Analytic against simulated throughput, {schedules} schedules per cell",
            [*columns, ">signs", ">best/worst"],
            rows,
        )
    )
    for goal in goals_reached(results):
        console.print(
            f"{goal.field}: median over cells {goal.median:.3g}; required "
            f"{'>=' if goal.at_least else '<='} {goal.required:g} (aim {goal.aim:g}), "
            f"reached in {goal.inside} of {goal.cells} cells"
        )
