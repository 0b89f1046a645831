"""`pmoss data import-original`: the schedules and snapshots of P-MOSS itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, progress_bar
from pmoss_env.cli.output import check_output
from pmoss_env.errors import DatasetError


def import_original(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Your copy; $PMOSS_ORIGINAL_DATA or shared/data/original if none."),
    ] = None,
    machine: Annotated[
        str, typer.Option(help="Whose files to read, by the name of its machine file.")
    ] = "intel_skx_4s_8n",
    machine_file: Annotated[
        Path | None, typer.Option(help="The machine file, where FOLDER has none.")
    ] = None,
    knowledge_base: Annotated[
        str | None,
        typer.Option(help="Folder of the snapshots, below FOLDER; kb_b__, if it is there."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the corrected snapshots here (.npz).")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is there.")] = False,
) -> None:
    """Read the original P-MOSS schedules and snapshots, and correct what is wrong in them.

    FOLDER is a clone of either public repository, purduedb/PMOSS or purduedb/L-PMOSS, or a copy
    with machines/, schedules/, learned/ and kb_b__/. Schedules are read without snapshots, too. The
    repositories have no licence: nothing of them is part of this project.

    Example: pmoss data import-original ../shared/data/original --out runs/original.npz
    """
    from pmoss_datasets.folder import check_target
    from pmoss_datasets.original import find_original, import_folder, save_snapshots

    folder = folder or find_original()
    if folder is None:
        raise DatasetError("no folder given, and $PMOSS_ORIGINAL_DATA names none")
    if out:
        check_output(out)
        check_target(out, overwrite, what="")
    with progress_bar("reading") as progress:
        data = import_folder(folder, machine, knowledge_base, progress, machine_file=machine_file)
    console.print(data.summary(), highlight=False)
    if out:
        save_snapshots(out, data, overwrite=overwrite)
        console.print(f"written to {out}")
