"""`pmoss benchmark threads`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pmoss_benchmarks.cli.benchmark.running import COLOURS
from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.output import check_output


def threads(
    seeds: Annotated[int, typer.Option(help="Runs per program and method.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Write threads.json and the pictures to this folder.")
    ] = None,
) -> None:
    """The Smart Scheduler paper's figures: paper, ours, accepted range, verdict.

    Example: pmoss benchmark threads --seeds 3
    """
    from pmoss_benchmarks.report import check_replaceable
    from pmoss_benchmarks.threads import FITTED, METHODS
    from pmoss_benchmarks.threads.benchmark import run_threads

    if out:
        check_output(out, folder=True)
        check_replaceable(out / "threads.json", "threads")
    with progress_bar("threads") as bar:
        result = run_threads(seeds, out, bar)
    comparison, speed = result.comparison, result.timings
    console.print(
        table(
            f"Minutes of real time, mean of {seeds} runs",
            ["program", *(f">{method}" for method in METHODS)],
            [
                *(
                    (p, *(f"{comparison.mean(p, m) / 60:.2f}" for m in METHODS))
                    for p in comparison.runs
                ),
                ("sum", *(f"{comparison.total(m) / 60:.2f}" for m in METHODS)),
            ],
        )
    )
    console.print(
        table(
            "Smart Scheduler",
            ["row", "statement", ">paper", ">ours", "accepted", ""],
            [
                (
                    r.row,
                    r.statement,
                    r.paper,
                    f"{r.ours:.3f}",
                    f"{r.low:.3g} .. {r.high:.3g}",
                    Text(r.verdict, COLOURS[r.verdict]),
                )
                for r in result.rows
            ],
        )
    )
    for r in result.rows:
        if r.verdict == "outside" and r.cause:
            console.print(f"{r.statement}: {r.cause}")
    for parameter, row in FITTED.items():
        console.print(f"fitted: {parameter} to {row}")
    console.print(
        f"LinUCB decides in {speed['decision_us']:.1f} us; {speed['epochs_per_s']:.0f} simulated "
        f"epochs per second and core, {speed['env_epochs_per_s']:.0f} through the environment"
    )
    console.print(f"{result.inside} of {result.judged} rows inside")
    for path in result.written:
        console.print(f"written to {path}")
