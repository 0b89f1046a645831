"""`pmoss benchmark datasets`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark.options import out_file
from pmoss_env.cli.console import console, progress_bar

_OUT = Path("benchmarks/results/datasets.json")


def datasets(
    root: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of datasets; repeatable. Default: what is built and what ships."),
    ] = None,
    out: Annotated[Path, out_file("The index (JSON); its other lines are kept.")] = _OUT,
) -> None:
    """Write the index of the standard suite: sizes, checksums, reference scores, TQ and SACo.

    Only datasets of the suite that lie here are looked at. Lines of others stay as they are, so the
    index grows with what is built. Interrupted, what was looked at is kept.

    Example: pmoss benchmark datasets --out benchmarks/results/datasets.json
    """
    from pmoss_benchmarks.datasets import update_index
    from pmoss_datasets.catalog import installed

    places: list[Path | None] = [*root] if root else [None]
    every = [data for place in places for data in installed(place)]
    with progress_bar("looking at datasets") as progress:
        told = update_index(out, every, progress)
    console.print(f"{out}: {len(told)} datasets")
