"""`pmoss benchmark ...`: the figures this project publishes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, table
from pmoss_env.cli.output import check_output

app = typer.Typer(help="Measure what this project publishes.", no_args_is_help=True)


@app.callback()
def benchmark() -> None:
    """Measure what this project publishes."""


@app.command()
def performance(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="environment, vector-environment, decision-transformer or index; repeatable."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds per figure.")] = 7,
    keys: Annotated[int, typer.Option(help="Records in the index.")] = 30_000_000,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """How fast the parts are: environment step, placement by the model, index lookups.

    Example: pmoss benchmark performance --only index --keys 1000000
    """
    from pmoss_benchmarks.performance import PARTS, run_performance
    from pmoss_benchmarks.report import Report
    from pmoss_env.evaluation import command_line

    if out:
        check_output(out)
    figures = run_performance(
        only or list(PARTS),
        announce=lambda part: console.print(f"measuring {part} ..."),
        rounds=rounds,
        keys=keys,
    )
    report = Report(command_line(), figures)
    console.print(
        table(
            f"Performance on {report.machine['cpu_model']}, {report.machine['cpus']} CPUs",
            ["figure", ">median", ">least", ">most", "unit", "goal", "reached"],
            [
                (
                    f.name,
                    *(f"{value:.4g}" for value in (f.median, f.low, f.high)),
                    f.unit,
                    f.goal,
                    "" if f.reached is None else ("yes" if f.reached else "no"),
                )
                for f in figures
            ],
        )
    )
    if out:
        report.write(out)
        console.print(f"written to {out}")
