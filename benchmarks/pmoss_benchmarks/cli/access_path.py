"""`pmoss run scans`: both paths of a scan on this host; `pmoss data scans`: simulated scans."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.output import check_output

if TYPE_CHECKING:
    from rich.table import Table

    from pmoss_benchmarks.access_path.models import ModelScores


def calibrate(
    engine: Annotated[
        list[str] | None, typer.Option(help="thread or dsa; repeatable; default: both.")
    ] = None,
    megabytes: Annotated[
        list[float] | None, typer.Option("--mb", help="Size of a column; repeatable.")
    ] = None,
    share: Annotated[
        list[float] | None, typer.Option(help="Share of the rows that match; repeatable.")
    ] = None,
    background: Annotated[
        list[int] | None, typer.Option(help="Threads that copy meanwhile; repeatable.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Of each combination on each path.")] = 7,
    seed: Annotated[int, typer.Option(min=0, help="Of the values and of the order.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the results to this JSON file.")] = None,
) -> None:
    """Measure loads and copies on this host, train the models, say whether offloading ever wins.

    Example: pmoss run scans --mb 1 --mb 16 --repeats 5
    """
    from pmoss_benchmarks.access_path.calibration import CalibrationPlan
    from pmoss_benchmarks.access_path.calibration import calibrate as run
    from pmoss_env.envs.access_path.real import ENGINES
    from pmoss_env.errors import UnknownNameError
    from pmoss_env.files import write_atomically
    from pmoss_env.provenance import MEASURED, describe_machine, provenance

    if out:
        check_output(out)
    standard = CalibrationPlan()
    plan = CalibrationPlan(
        megabytes=megabytes or standard.megabytes,
        shares=share or standard.shares,
        backgrounds=background or standard.backgrounds,
        repeats=repeats,
        seed=seed,
    )
    names = engine or list(ENGINES)
    for name in names:
        if name not in ENGINES:
            raise UnknownNameError("copy engine", name, ENGINES)
    results = []
    with progress_bar("calibrating") as bar:
        for name in names:
            results.append(run(plan, name, bar))
    host = describe_machine()
    for found in results:
        if found.absent:
            continue
        console.print(
            table(
                f"Columns on {host['cpu_model']}: GB/s, median of {repeats}",
                ["node", ">MB", ">matches", ">background", ">loads", f">{found.engine}", "faster"],
                [
                    (
                        f"{node:.0f}",
                        f"{mb:g}",
                        f"{share:.1%}",
                        f"{threads:.0f}",
                        f"{mb / loads * 1e3:.2f}",
                        f"{mb / copies * 1e3:.2f}",
                        "loads" if loads <= copies else found.engine,
                    )
                    for (node, mb, share, threads), (loads, copies) in sorted(
                        zip(found.combinations.tolist(), found.medians.tolist(), strict=True)
                    )
                ],
            )
        )
        console.print(
            models_table(found.scores, "Models, on combinations they were not trained on")
        )
    for found in results:
        console.print(found.conclusion, highlight=False)
    if out:
        report = {
            **provenance(["pmoss_benchmarks.access_path.calibration"], MEASURED),
            "plan": asdict(plan),
            "engines": [found.as_dict() for found in results],
        }
        write_atomically(out, json.dumps(report, indent=1) + "\n")
        console.print(f"written to {out}")


def collect(
    out: Annotated[Path, typer.Argument(help="Folder of the dataset.")],
    machine: Annotated[str, typer.Option(help="A machine with copy engines.")] = "uv-300h",
    combinations: Annotated[int, typer.Option(help="Of the five features.")] = 2048,
    repeats: Annotated[int, typer.Option(help="Of each combination on each path.")] = 50,
    relaxed: Annotated[
        bool, typer.Option(help="Also the path whose results may be wrong.")
    ] = False,
    noise: Annotated[float, typer.Option(help="Of the run times; 1 is as on hardware.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that chance decides.")] = 0,
    threads: Annotated[int, typer.Option(help="The bits are the same for any number.")] = 1,
    overwrite: Annotated[bool, typer.Option(help="Replace a dataset that is there.")] = False,
) -> None:
    """Collect simulated scans: 204,800 observations unless told otherwise.

    Example: pmoss data scans runs/scans --combinations 64 --repeats 5
    """
    from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans

    check_output(out, folder=True)
    recipe = AccessPathRecipe(
        machine=machine,
        combinations=combinations,
        repeats=repeats,
        relaxed=relaxed,
        noise=noise,
        seed=seed,
    )
    with progress_bar("simulating scans") as bar:
        dataset = collect_scans(recipe, out, bar, threads, overwrite=overwrite)
    _, times = dataset.pairs()
    console.print(
        f"{dataset.id}: {len(dataset):,} observations, {combinations} combinations x {repeats} "
        f"repeats x {recipe.paths} paths; offloading wins in "
        f"{(times[:, 1] < times[:, 0]).mean():.0%}; in {out}",
        highlight=False,
    )


def models_table(scores: Sequence[ModelScores], title: str) -> Table:
    """A table of models and their scores."""

    def told(value: float, form: str) -> str:
        return format(value, form) if isfinite(value) else "-"

    columns = [">precision", ">recall", ">F1", ">above best", ">mean regret", ">us/decision"]
    return table(
        title,
        ["model", ">R2 loads", ">R2 copies", *columns],
        [
            (
                s.model,
                *(told(s.r2[path], ".4f") if s.r2 else "-" for path in ("cpu", "offload")),
                *(told(value, ".3f") for value in (s.precision, s.recall, s.f1)),
                *(told(value, ".2%") for value in (s.above_best, s.mean_regret)),
                told(s.us_per_decision, ".3f"),
            )
            for s in scores
        ],
    )
