"""`pmoss data scans`: simulated scans of tables, on every path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, progress_bar
from pmoss_env.cli.output import check_output


def scans(
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
    """Collect simulated scans: 204,800 observations by default.

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
