"""`pmoss benchmark served`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish, show_backlog


def served(
    results: Annotated[
        list[Path], typer.Argument(help="Result files (.jsonl) of episodes, or folders of them.")
    ],
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """What stored schedules serve under a backlog: all queries, the mix, and starved slices.

    Example: pmoss benchmark served benchmarks/results/offline/machines/saturated
    """
    from pmoss_benchmarks.spatial.served import digests_of, means_of, served_by, served_cells

    cells = served_cells(results)
    found = finish(served_by, cells, digests_of(cells), out, processes, "served")
    for result in found:
        title = f"{result['machine']}, {result['workload']}: Mq/s"
        show_backlog(title, "policy", means_of(result))
