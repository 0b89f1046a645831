"""`pmoss benchmark off-policy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark.options import out_file
from pmoss_env.cli.console import Stages, console, table


def off_policy(
    quick: Annotated[
        bool, typer.Option("--quick", help="The toy with small networks: seconds.")
    ] = False,
    out: Annotated[Path | None, out_file("Write the report to this JSON file.")] = None,
) -> None:
    """How well a policy's value is estimated from logged data, held against the exact one.

    Example: pmoss benchmark off-policy --quick
    """
    from pmoss_benchmarks.spatial.off_policy import FULL, QUICK, run_off_policy

    with Stages() as progress:
        found = run_off_policy(QUICK if quick else FULL, progress, out)
    columns = ["policy", "horizon", "estimator", ">truth", ">estimate", ">error", ">relative"]
    for task in dict.fromkeys(row["task"] for row in found):
        cells = [
            (
                *(row[key] for key in ("policy", "horizon", "estimator")),
                *(f"{row[key]:.2f}" for key in ("truth", "estimate", "error")),
                "" if row["relative_error"] is None else f"{row['relative_error']:.0%}",
            )
            for row in found
            if row["task"] == task
        ]
        console.print(table(f"{task}: values in Mq/s", columns, cells))
    if out:
        console.print(f"written to {out}")
