"""`pmoss benchmark backlog`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish, show_backlog


def backlog(
    machine: Annotated[list[str] | None, typer.Option(help="A server; repeatable.")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="A workload; repeatable.")] = None,
    budget: Annotated[
        list[int] | None, typer.Option(help="Model evaluations of a search; repeatable.")
    ] = None,
    instances: Annotated[int, typer.Option(min=1, help="Workload instances of each.")] = 3,
    slices: Annotated[int, typer.Option(help="Slices of the index.")] = 256,
    confirmed: Annotated[
        list[str] | None,
        typer.Option(help="A workload that the simulated server measures too; repeatable."),
    ] = None,
    queries: shared.Queries = None,
    line_sampling: shared.Sampling = 64,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """How a backlog can be gamed: what is served in all, and the mix that users asked for.

    Example: pmoss benchmark backlog --machine skylake-x-8n --workload ycsb-a
    """
    from pmoss_benchmarks.spatial.backlog import BacklogOptions, backlog_cells, measure_cell

    options = BacklogOptions(
        instances=instances,
        **({"budgets": tuple(budget)} if budget else {}),
        slices=slices,
        confirmed=tuple(confirmed or ()),
        simulated={"queries": queries, "line_sampling": line_sampling},
    )
    cells = backlog_cells(machine, workload)
    work = partial(measure_cell, options)
    results = finish(work, cells, asdict(options), out, processes, "backlog")
    for result in results:
        title = f"{result['machine']}, {result['workload']}: Mq/s under a backlog"
        show_backlog(title, "schedule", result["rows"])
