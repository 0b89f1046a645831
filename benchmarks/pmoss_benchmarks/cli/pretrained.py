"""`pmoss dev pretrained`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console
from pmoss_env.cli.output import check_output


def pretrained(
    checkpoint: Annotated[Path, typer.Argument(help="Of a trained agent (.safetensors).")],
    dataset: Annotated[str, typer.Argument(help="Folder or id of the data that it learned from.")],
    results: Annotated[
        Path,
        typer.Argument(help="Rows of a study that it plays in, e.g. core or continual."),
    ],
    name: Annotated[str, typer.Option(help="What it is to be called, without pmoss/.")],
    out: Annotated[Path, typer.Option(help="Folder for the weights and the card.")],
) -> None:
    """Make what ships of a trained agent: its weights, and a card with its stored score.

    The agent must be the one of the results: it plays some of their episodes again.

    Example: pmoss dev pretrained runs/s.safetensors
    pmoss/skylake-x-8n-btree-ycsb-a-busy-core/mixed-v0 benchmarks/results/easy.jsonl
    --name surrogate-busy-core-v0 --out agents/pmoss_agents/shipped
    """
    from pmoss_agents import pretrained as shipped
    from pmoss_benchmarks.offline.pretrained import publish
    from pmoss_datasets.catalog import load_data

    check_output(out, folder=True)
    card = publish(checkpoint, load_data(dataset)[1].path, results, out, name)
    for line in shipped.in_words(card):
        console.print(line, highlight=False, soft_wrap=True)
