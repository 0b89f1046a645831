"""`pmoss benchmark headroom`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish, verdict
from pmoss_env.cli.console import console, table


def headroom(
    machine: shared.Machines = None,
    index: shared.Indexes = None,
    workload: shared.Workloads = None,
    load: shared.Loads = None,
    interference: Annotated[
        list[str] | None, typer.Option(help="Family of co-tenants; repeatable; default: all.")
    ] = None,
    budget: Annotated[int, typer.Option(help="Model evaluations of the search.")] = 4000,
    instances: Annotated[int, typer.Option(help="Workload instances per task.")] = 5,
    queries: shared.Queries = None,
    line_sampling: shared.Sampling = 64,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """What search finds beyond the paper's schedules and LPT, task by task.

    Example: pmoss benchmark headroom --machine skylake-x-8n --workload ycsb-a --load closed
    Example: pmoss benchmark headroom --machine skylake-x-8n --index rtree --interference none
    """
    from pmoss_benchmarks.cells import catalogue_cells
    from pmoss_benchmarks.spatial.headroom import THRESHOLD, HeadroomOptions, measure_cell
    from pmoss_env.interference import INTERFERENCE

    options = HeadroomOptions(
        instances=instances,
        budget=budget,
        simulated={"queries": queries, "line_sampling": line_sampling},
    )
    cells = catalogue_cells(
        machine, workload, load or ["closed"], interference or list(INTERFERENCE), index
    )
    results = finish(
        partial(measure_cell, options), cells, asdict(options), out, processes, "headroom"
    )
    results = sorted(results, key=lambda r: -r["headroom"])
    console.print(
        table(
            f"Headroom, search of {budget} evaluations; throughputs in Mq/s",
            [
                *("machine", "workload", "load", "interference"),
                *(">random", ">simple", "which", ">search", ">headroom", ">simulated", ">rules"),
                "10 %",
            ],
            [
                (
                    *(r[key] for key in ("machine", "workload", "load", "interference")),
                    *(f"{r[key]:.1f}" for key in ("random", "simple")),
                    r["best_simple"],
                    f"{r['search']:.1f}",
                    *(
                        f"{r[key]:+.1%}"
                        for key in ("headroom", "simulated_headroom", "headroom_over_rules")
                    ),
                    verdict(r["has_headroom"]),
                )
                for r in results
            ],
        )
    )
    console.print(
        f"{sum(r['has_headroom'] for r in results)} of {len(results)} tasks have at least "
        f"{THRESHOLD:.0%} of headroom over the best simple schedule in both fidelities."
    )
