"""`pmoss data browse`: the episodes of a dataset as local pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_datasets.cli.datasets import Root
from pmoss_env.cli.console import console, progress_bar


def browse(
    dataset: Annotated[str, typer.Argument(help="Id or folder.")],
    out: Annotated[Path, typer.Argument(help="Folder of the pages.")],
    pages: Annotated[
        int, typer.Option(min=0, max=1000, help="Episodes with a page: worst, best and between.")
    ] = 12,
    root: Root = None,
    overwrite: Annotated[bool, typer.Option(help="Replace pages that are there.")] = False,
) -> None:
    """Show the episodes of a dataset in a browser: outcomes, chips and counters.

    The pages need no scripts and no network. Data of other domains than spatial have one page.

    Example: pmoss data browse pmoss/toy-btree-ycsb-a-busy-core/mixed-v0 runs/pages
    """
    from pmoss_agents.explaining.episodes import write_pages
    from pmoss_datasets.catalog import load

    data = load(dataset, root)
    with progress_bar("drawing") as progress:
        first = write_pages(data, out, pages, progress, overwrite=overwrite)
    console.print(f"open {first.resolve().as_uri()}", highlight=False, soft_wrap=True)
