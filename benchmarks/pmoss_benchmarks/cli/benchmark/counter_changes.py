"""`pmoss benchmark counter-changes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish


def counter_changes(
    results: Annotated[
        list[Path], typer.Argument(help="Result files (.jsonl) of episodes, or folders of them.")
    ],
    before: Annotated[str, typer.Option(help="The baseline to compare with.")] = "os-default",
    after: Annotated[
        list[str] | None,
        typer.Option(help="A policy of the files; repeatable; default: surrogate."),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Of each policy, the first ones.")] = 10,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """Which counters differ under stored schedules, per query: why they are faster.

    Example: pmoss benchmark counter-changes benchmarks/results/offline/machines/same-task
    """
    import numpy as np

    from pmoss_agents.explaining.differences import changed
    from pmoss_benchmarks.spatial.counter_changes import changes_by, changes_cells
    from pmoss_benchmarks.spatial.served import digests_of, served_cells
    from pmoss_env.cli.console import console, table

    files = served_cells(results)
    cells = changes_cells([one.file for one in files], before, after or ["surrogate"], episodes)
    found = finish(changes_by, cells, digests_of(files), out, processes, "counter changes")
    for cell, result in zip(cells, found, strict=True):
        means = np.mean([one["per_query"] for one in result["measured"]], axis=0)
        console.print(
            table(
                f"{result['machine']}, {result['workload']}, {result['load']}: per query",
                ["counter", f">{cell.before}", f">{cell.after}", ">change"],
                [
                    changed(name, old, new)
                    for name, old, new in zip(result["counters"], *means, strict=True)
                ],
            )
        )
