"""`pmoss benchmark access-path`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pmoss_benchmarks.cli.access_path import models_table
from pmoss_benchmarks.cli.benchmark.running import COLOURS
from pmoss_env.cli.console import Stages, console, table
from pmoss_env.cli.output import check_output


def access_path(
    dataset: Annotated[
        Path | None, typer.Option(help="A dataset of scans; default: simulate one.")
    ] = None,
    combinations: Annotated[int, typer.Option(help="Of features, if one is simulated.")] = 2048,
    repeats: Annotated[int, typer.Option(help="Of each, if one is simulated.")] = 50,
    threads: Annotated[int, typer.Option(help="To simulate in.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json and figures.png.")
    ] = None,
) -> None:
    """The hardware-offload paper: its numbers beside ours, the models, and its figures.

    Ends with status 1 if a hard row, one that nothing was fitted to, is outside its tolerance.

    Example: pmoss benchmark access-path --combinations 64 --repeats 5
    """
    from pmoss_benchmarks.access_path.benchmark import run_access_path
    from pmoss_benchmarks.report import check_replaceable

    if out:
        check_output(out / "results.json")
        check_replaceable(out / "results.json", "access-path")
    with Stages() as progress:
        result = run_access_path(
            dataset,
            out,
            combinations=combinations,
            repeats=repeats,
            threads=threads,
            progress=progress,
        )
    console.print(
        table(
            "Adaptive Access Path Selection, UV 300H",
            ["row", "what", ">paper", ">ours", ">tolerance", "verdict"],
            [
                (
                    row.row,
                    row.what,
                    f"{row.paper:g}",
                    f"{row.ours:.4g}",
                    f"{row.low:.3g} .. {row.high:.3g}",
                    Text(
                        row.verdict if row.verdict != "fitted" else f"fitted: {row.basis}",
                        COLOURS[row.verdict],
                    ),
                )
                for row in result.rows
            ],
        )
    )
    console.print(
        models_table(result.scores, f"Models, trained on 80 % of {result.observations:,} scans")
    )
    console.print(
        table(
            "Agents in pmoss/AccessPath-v0: time above the oracle's, all scans",
            ["agent", ">fitted to", ">above oracle", ">last half"],
            [
                (e.agent, e.fitted_to, f"{e.above_oracle:.2%}", f"{e.above_oracle_late:.2%}")
                for e in result.episodes
            ],
        )
    )
    for row in result.outside:
        console.print(f"{row.row}, {row.what}: {row.note or 'no cause is known'}", highlight=False)
    console.print(
        f"{len(result.judged) - len(result.outside)} of {len(result.judged)} predicted rows "
        f"inside; {len(result.rows) - len(result.judged)} rows were fitted to."
    )
    if out:
        console.print(f"written to {out}")
    if any(row.gate == "hard" for row in result.outside):
        raise typer.Exit(1)
