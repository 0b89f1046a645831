"""Arguments and options that name policies, shared by the commands that take them."""

from __future__ import annotations

from typing import Annotated

import typer

PoliciesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[POLICY]...",
        help="A rule, also of packages that offer some as pmoss.baselines; pmoss/NAME of an agent "
        "that ships trained; a checkpoint (.safetensors); module:Class@CHECKPOINT of an "
        "agent of yours; module:Class of any policy; or the name of an agent that needs no "
        "training, also of one that a package offers as entry point pmoss.agents. Repeatable.",
    ),
]
DomainOption = Annotated[
    str | None,
    typer.Option(
        help="Which environment: spatial, threads, access-path, or one of others; the agents' own "
        "if not given, else spatial."
    ),
]
PadOption = Annotated[
    bool,
    typer.Option(
        "--pad",
        help="Let agents place slices on a smaller machine than that of their data: its grid is "
        "padded to theirs and masked.",
    ),
]
