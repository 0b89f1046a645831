"""`pmoss benchmark studies`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs


def studies(
    study: Annotated[
        list[str] | None,
        typer.Option(
            help="data, stale, fresh, vendors, change, switches, alpha, raw, gain, weights, "
            "thread-causes, scan-causes or mesh; repeatable; default: all."
        ),
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(min=1, help="Episodes of data; repeatable.")
    ] = None,
    usual: Annotated[int, typer.Option(min=1, help="Episodes of data in other studies.")] = 100,
    machine: Annotated[str, typer.Option(help="Of the spatial studies.")] = "skylake-x-8n",
    slices: Annotated[int, typer.Option(min=1, help="Of the index.")] = 256,
    episodes: Annotated[int, typer.Option(min=1, help="Of each evaluation.")] = 20,
    budget: Annotated[
        int, typer.Option(help="Model evaluations of the search that scores 100.")
    ] = 2000,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each program of threads.")] = 3,
    instances: Annotated[
        int, typer.Option(min=1, help="Workload instances of the statements, without a switch.")
    ] = 5,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="field=value of the surrogate's config.")
    ] = None,
    agent: Annotated[
        str, typer.Option(help="A surrogate's checkpoint, instead of that of --usual episodes.")
    ] = "",
    data: Annotated[
        Path | None, typer.Option(help="Folder of datasets and agents; default: runs/studies.")
    ] = None,
    processes: shared.Processes = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of results; the same command goes on after a stop."),
    ] = None,
) -> None:
    """How scores depend on data, on old counters, on vendors, on change; and other papers' sweeps.

    Example: pmoss benchmark studies --study gain --study weights
    """
    from pmoss_benchmarks.report import check_replaceable
    from pmoss_benchmarks.studies import SUMMARY, StudyOptions, run_studies, study_cells

    if out:
        check_output(out, folder=True)
        check_replaceable(out / SUMMARY, "studies")
    options = StudyOptions(
        machine=machine,
        slices=slices,
        sizes=tuple(size or sorted({10, 30, usual, 300})),
        usual=usual,
        episodes=episodes,
        budget=budget,
        seeds=seeds,
        instances=instances,
        changes=pairs(changes),
        agent=agent,
        folder=str(data or Path("runs/studies")),
    )
    cells = study_cells(options, study)
    with progress_bar("studies") as bar:
        summary = run_studies(options, cells, out, bar, processes)
    console.print(
        table(
            f"Scores over {episodes} episodes",
            ["study", "case", "workload", ">score", ">over the best rule"],
            [
                (
                    one["study"],
                    one["case"],
                    one["workload"],
                    f"{one['score']['value']:.1f}",
                    f"{one['over_rule']['value']:+.1f} over {one['best_rule']}",
                )
                for one in summary["episodes"]
            ],
        )
    )
    for one in summary["figures"]:
        console.print(f"{one['study']}, {one['case']}: figures for {', '.join(list(one)[2:])}")
    if out:
        console.print(f"written to {out}")
