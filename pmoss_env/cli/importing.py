"""`pmoss data import-machine`: a machine of this host, or of an lstopo file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console
from pmoss_env.cli.output import check_output, printable


def import_machine(
    lstopo: Annotated[
        Path | None,
        typer.Argument(help="XML file that `lstopo --of xml` wrote; without it, this host."),
    ] = None,
    sysfs: Annotated[
        Path | None, typer.Option(help="Folder with a copy of another host's /sys.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the machine to this .toml file, else print it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is there.")] = False,
) -> None:
    """Make a machine of this host or of an lstopo file; values that cannot be read are guesses.

    Example: pmoss data import-machine --out server.toml
    """
    from pmoss_env.errors import DescriptionError
    from pmoss_env.files import write_atomically
    from pmoss_env.machines import importing

    if lstopo and sysfs:
        raise DescriptionError(f"--sysfs {sysfs}: cannot be given beside {lstopo}")
    if out:
        check_output(out, suffix=".toml")
        if out.exists() and not overwrite:
            raise DescriptionError(f"--out {out}: exists: give --overwrite to replace it")
    server = importing.read_lstopo(lstopo) if lstopo else importing.read_host(str(sysfs or "/"))
    text = importing.import_machine(server, out.stem if out else "imported")
    if out:
        write_atomically(out, text)
        console.print(f"written to {out}")
    else:
        typer.echo(printable(text), nl=False)
