"""Options that several benchmarks share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Machines = Annotated[
    list[str] | None, typer.Option("--machine", help="Catalogue name; repeatable; default: all.")
]
Workloads = Annotated[
    list[str] | None, typer.Option("--workload", help="Catalogue name; repeatable; default: all.")
]
Indexes = Annotated[
    list[str] | None,
    typer.Option(
        "--index", help="Only workloads for this kind of index; repeatable; default: all."
    ),
]
Loads = Annotated[
    list[str] | None,
    typer.Option(
        "--load",
        help="closed, closed:<queries in flight per worker>, saturated, saturated:mix or "
        "open:<Mq/s>; repeatable.",
    ),
]
Processes = Annotated[int, typer.Option(help="Worker processes.")]
Queries = Annotated[
    int | None, typer.Option(help="Queries that the simulator replays; default: by the caches.")
]
Sampling = Annotated[int, typer.Option(help="The simulator keeps one of so many cache lines.")]
Out = Annotated[
    Path | None, typer.Option(help="Write JSON here; the same command goes on after a stop.")
]
