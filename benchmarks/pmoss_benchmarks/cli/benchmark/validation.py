"""`pmoss benchmark validation`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pmoss_benchmarks.cli.benchmark.options import Queries, Sampling, out_file
from pmoss_benchmarks.cli.benchmark.running import COLOURS
from pmoss_env.cli.console import console, progress_bar, table


def validation(
    only: Annotated[
        list[str] | None, typer.Option(help="Number of a statement; repeatable; default: all.")
    ] = None,
    queries: Queries = None,
    line_sampling: Sampling = 64,
    out: Annotated[Path | None, out_file("Write the verdicts to this JSON file.")] = None,
) -> None:
    """Published statements about real machines: expected, got, tolerance, verdict.

    Ends with status 1 if a hard statement is outside its tolerance.

    Example: pmoss benchmark validation --only 2 --only 3
    """
    from pmoss_benchmarks.validation import run_validation

    simulated = {"queries": queries, "line_sampling": line_sampling}
    with progress_bar("validation") as bar:
        result = run_validation(only, simulated, out, bar)
    console.print(
        "No learned policy is judged: where a statement is about P-MOSS, a search of "
        f"{result.budget} evaluations stands in its place (search), Random beside it. Every query "
        f"takes {result.overhead_cycles:g} cycles more than our index's own code "
        "(overhead_cycles), for the original's software is slower."
    )
    columns = [">analytic", ">simulated", "by", ">Random", "", ">no overhead"]
    console.print(
        table(
            "Published statements",
            ["no", "gate", "statement", "expected", "accepted", *columns],
            [
                (
                    v.target.number,
                    v.target.gate,
                    v.target.statement,
                    v.target.expected,
                    f"{v.target.low:g} .. {v.target.high:g}",
                    *(_told(v.got, fidelity) for fidelity in ("analytic", "simulated")),
                    "search" if v.random else "",
                    _told(v.random, "simulated") + " passes, too" * bool(v.random_inside),
                    Text(v.words, COLOURS[v.words]),
                    _told(v.without_overhead, "analytic"),
                )
                for v in result.verdicts
            ],
        )
    )
    for v in result.verdicts:
        if not v.inside and v.target.cause:
            console.print(f"{v.target.number}: {v.target.cause}")
    console.print(
        f"{result.inside} of {result.asked} statements inside; "
        f"hard statements outside: {', '.join(result.failed) or 'none'}"
    )
    too = [v.target.number for v in result.search_gates if v.random_inside]
    console.print(
        f"hard statements on P-MOSS that the search passes: {len(result.search_gates)}; "
        f"that Random passes as well: {', '.join(too) or 'none'}"
    )
    if out:
        console.print(f"written to {out}")
    if result.failed:
        raise typer.Exit(1)


def _told(values: dict[str, float], fidelity: str) -> str:
    """A value, or nothing where there is none."""
    value = values.get(fidelity, math.nan)
    return "" if math.isnan(value) else f"{value:.3g}"
