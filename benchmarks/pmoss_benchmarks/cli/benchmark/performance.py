"""`pmoss benchmark performance`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark.options import out_file
from pmoss_env.cli.console import console, table


def performance(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="environment, vector-environment, continual, growth, growth-index, datasets, "
            "decision-transformer, index, rtree, plugin, libraries, recording, runtime, counting, "
            "loading, live, simulator, sampling or scan; repeatable."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds per figure.")] = 7,
    keys: Annotated[int, typer.Option(help="Records in the index.")] = 30_000_000,
    out: Annotated[Path | None, out_file("Write the figures to this JSON file.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show the medians of the stored hosts beside.")
    ] = False,
) -> None:
    """How fast the parts are: environment step, placement by the model, index lookups.

    OUT is written after every part; parts that it holds and that are not measured stay.

    Stored hosts had 7 rounds and 30 million keys, unless their notes say otherwise. Compare ratios
    first: what one run holds beside itself depends less on the host.

    Example: pmoss benchmark performance --only environment --rounds 3 --compare
    """
    from pmoss_benchmarks.performance import run_performance
    from pmoss_benchmarks.performance.tables import medians, read_reports

    stored = {name: medians(of_host) for name, of_host in read_reports().items()} if compare else {}
    columns = ["figure", ">median", ">least", ">most", *(f">{name}" for name in stored)]
    columns += ["unit", "goal", "reached"]
    report, measured = run_performance(
        only,
        out,
        lambda part: console.print(f"measuring {part} ..."),
        rounds=rounds,
        keys=keys,
    )
    console.print(
        table(
            f"Performance on {report.machine['cpu_model']}, {report.machine['cpus']} CPUs",
            columns,
            [
                (
                    f.name,
                    *(f"{value:.4g}" for value in (f.median, f.low, f.high)),
                    *(known.get((f.name, f.unit), "") for known in stored.values()),
                    f.unit,
                    f.goal,
                    "" if f.reached is None else ("yes" if f.reached else "no"),
                )
                for f in measured
            ],
        )
    )
    if out:
        console.print(f"written to {out}")
