"""`pmoss benchmark core-node`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish
from pmoss_env.cli.console import console, table


def core_node(
    budget: Annotated[int, typer.Option(help="Model evaluations of each search.")] = 4000,
    instances: Annotated[int, typer.Option(help="Episodes per task.")] = 5,
    confirmed: Annotated[int, typer.Option(help="Of them, by the simulated server.")] = 2,
    slices: Annotated[
        int | None, typer.Option(help="Fewer than the tasks have, for a quick look.")
    ] = None,
    queries: shared.Queries = None,
    line_sampling: shared.Sampling = 64,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """What choosing the node of the data is worth, in tasks where nodes are full or starved.

    Example: pmoss benchmark core-node --instances 2 --confirmed 1
    """
    from pmoss_benchmarks.spatial.core_node import (
        CoreNodeOptions,
        TaskCell,
        core_node_cells,
        measure_cell,
    )

    options = CoreNodeOptions(
        instances=instances,
        confirmed=confirmed,
        budget=budget,
        simulated={"queries": queries, "line_sampling": line_sampling},
    )
    cells = [TaskCell(cell.task, slices) for cell in core_node_cells()]
    work = partial(measure_cell, options)
    results = finish(work, cells, asdict(options), out, processes, "core-node")
    columns = ["task", ">rule, core", ">search, core", ">rule, node", ">search, node"]
    console.print(
        table(
            f"Search of {budget} evaluations with data on the core's node, and with data anywhere",
            [*columns, ">data away", ">gain", ">simulated"],
            [
                (
                    r["task"],
                    *(f"{r[key]:.1f}" for key in ("rule_core", "search_core")),
                    *(f"{r[key]:.1f}" for key in ("rule_core_node", "search_core_node")),
                    f"{r['away']:.0%}",
                    *(f"{r[key]:+.1%}" for key in ("gain", "simulated_gain")),
                )
                for r in results
            ],
        )
    )
