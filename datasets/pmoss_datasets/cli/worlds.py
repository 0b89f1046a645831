"""`pmoss data worlds`: made-up servers and workloads, for agents that play anywhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, progress_bar
from pmoss_env.cli.output import check_output


def worlds(
    out: Annotated[Path, typer.Argument(help="Folder of the set.")],
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "train",
    count: Annotated[int, typer.Option(help="Worlds; a set that is there may grow.")] = 1024,
    processes: Annotated[
        int, typer.Option(help="At once; the bits are the same for any number.")
    ] = 1,
    seconds: Annotated[
        float, typer.Option(min=0, help="Stop then, with the worlds that are made.")
    ] = math.inf,
    overwrite: Annotated[bool, typer.Option(help="Replace another set that is there.")] = False,
) -> None:
    """Make up servers with workloads, and log schedules on them; 50 worlds a second and core.

    No server of a catalogue is among them. Interrupted, the same command goes on. An agent can
    learn from the first worlds while the others are made.

    Example: pmoss data worlds runs/worlds --count 4096 --processes 2
    """
    from pmoss_datasets.spatial.world_sets import WorldsRecipe, make_worlds

    check_output(out, folder=True)
    recipe = WorldsRecipe(split=split, count=count)
    with progress_bar("making worlds") as bar:
        made = make_worlds(
            recipe, out, bar, processes=processes, overwrite=overwrite, seconds=seconds
        )
    megabytes = sum(place.stat().st_size for place in out.iterdir()) / 1e6
    console.print(
        f"{made.id}: {len(made):,} worlds, {megabytes:,.0f} MB; in {out}", highlight=False
    )
