"""`pmoss data export`: folders to share with others."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pmoss_datasets.cli.datasets import RewardOption, Root
from pmoss_env.cli.console import console, progress_bar
from pmoss_env.errors import DescriptionError
from pmoss_env.extras import require


class Place(StrEnum):
    """Places to share datasets and agents."""

    hub = "hub"


class Form(StrEnum):
    """Forms of Minari's arrays."""

    hdf5 = "hdf5"
    parquet = "parquet"


#: What writes an agent's folder, given its name and the folder to write into: of a layer above.
export_agent: list[Callable[[str, Path], Path]] = []


def export(
    out: Annotated[Path, typer.Argument(help="Folder that gets a folder of the namespace.")],
    to: Annotated[
        Place, typer.Option(help="What takes the folder: hub, the Hugging Face hub.")
    ] = Place.hub,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="Id or folder; repeatable. Default: all here that have a licence."),
    ] = None,
    suite: Annotated[
        bool, typer.Option("--suite", help="The whole standard suite; what is not here is made.")
    ] = False,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="pmoss/NAME of a trained agent: a folder of its own in OUT, with weights "
            "and card. Repeatable; without --dataset no data are written then."
        ),
    ] = None,
    licence: Annotated[
        str, typer.Option(help="Of data of your own, as SPDX names it; ours have one.")
    ] = "",
    reward: RewardOption = None,
    form: Annotated[
        Form,
        typer.Option(help="Of Minari's arrays: parquet, which the hub's viewer shows, or hdf5."),
    ] = Form.hdf5,
    doi: Annotated[str, typer.Option(help="Of the collection, for its card.")] = "",
    upload: Annotated[
        str, typer.Option(metavar="USER/NAME", help="Repository of the hub that gets the folder.")
    ] = "",
    root: Root = None,
) -> None:
    """Write a folder to share: Minari's form, cards with metadata, an index, checksums.

    OUT/pmoss, or OUT/NAMESPACE of your own, is uploaded as it is, and Minari downloads from it. Its
    address is a mirror for $PMOSS_MIRROR, too. An episode of 256 steps takes about 0.1 MB.
    Interrupted, the same command goes on where it stopped.

    Example: pmoss data export runs/hub --dataset pmoss/toy-btree-ycsb-a-busy-core/mixed-v0

    Example: pmoss data export runs/hub --agent pmoss/surrogate-busy-core-v0

    Example: pmoss data export runs/hub --suite --form parquet --upload USER/pmoss
    """
    from pmoss_datasets.catalog import installed, load
    from pmoss_datasets.formats.hub import export as write
    from pmoss_datasets.hub import send
    from pmoss_datasets.suite import every_id, licence_of

    # Better known before hours of work.
    if upload:
        require("huggingface_hub")
    if form is Form.parquet:
        require("minari", "pyarrow")
    if upload and (len(agent or ()) > 1 or (agent and (dataset or suite))):
        raise DescriptionError(
            f"--upload {upload}: one repository takes one agent, or datasets: export the others by "
            "commands of their own"
        )
    for name in agent or ():
        for write_folder in export_agent:
            folder = write_folder(name, out)
            if upload:
                console.print(f"uploaded: {send(folder, upload, 'model')}", soft_wrap=True)
                continue
            console.print(f"{name}: hf upload USER/{folder.name} {folder}", soft_wrap=True)
    if agent and not (dataset or suite):
        return
    named = [*(dataset or ()), *(every_id() if suite else ())]
    datasets = [load(name, root) for name in named]
    if not named:  # a built one in place of the same that ships
        datasets = list({each.id: each for each in reversed(installed(root))}.values())[::-1]
    if not (named or licence):  # data of one's own do not stop the suite
        for each in datasets:
            if not licence_of(each):
                reason = "has no licence: --licence names one"
                console.print(f"left out: {each.id} {reason}", highlight=False, soft_wrap=True)
        datasets = [each for each in datasets if licence_of(each)]
    with progress_bar("exporting") as progress:
        folder = write(datasets, out, licence, reward, progress, form=form.value, doi=doi)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    console.print(f"{len(datasets)} datasets in {folder}, {size:.1f} MB")
    if upload:
        console.print(f"uploaded: {send(folder, upload, 'dataset')}", soft_wrap=True)
        return
    words = f"hf upload USER/{folder.name} {folder} --repo-type dataset"
    console.print(f"To upload it: {words}", soft_wrap=True)
