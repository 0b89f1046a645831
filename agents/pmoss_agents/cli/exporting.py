"""`pmoss agents export`: trained agents, to be shared with others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_datasets.cli.exporting import Place, ToOption
from pmoss_env.cli.console import console


def export(
    out: Annotated[Path, typer.Argument(help="Folder that gets a folder for each agent.")],
    to: ToOption = Place.hub,
    agent: Annotated[
        list[str] | None, typer.Option(help="pmoss/NAME; repeatable. Default: all that ship.")
    ] = None,
) -> None:
    """Write folders to share: weights, a card with metadata, checksums.

    Each folder is uploaded as it is, as a model of its own.

    Example: pmoss agents export --to hub runs/hub --agent pmoss/surrogate-busy-core-v0
    """
    from pmoss_agents import pretrained
    from pmoss_agents.hub import export as write

    for name in agent or pretrained.names():
        folder = write(name, out)
        console.print(f"{name}: hf upload USER/{folder.name} {folder}", soft_wrap=True)
