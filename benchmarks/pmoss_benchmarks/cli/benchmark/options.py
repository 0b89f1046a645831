"""Options that several benchmarks share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pmoss_env.cli.output import check_output

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


def _checked(context: typer.Context, out: Path | None) -> Path | None:
    """Refuses, before any work, a file that cannot be written or that holds something else."""
    from pmoss_benchmarks.report import check_replaceable

    if out is not None:
        check_output(out)
        check_replaceable(out, str(context.command.name))
    return out


def out_file(words: str) -> Any:
    """The option of a benchmark's report: a new file, or an earlier report of the same one."""
    return typer.Option(help=words, callback=_checked)


Out = Annotated[Path | None, out_file("Write JSON here; the same command goes on after a stop.")]
