"""Arguments and options that name policies, shared by the commands that take them."""

from __future__ import annotations

from typing import Annotated

import typer

from pmoss_env.cli.renamed import gone

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
# Version 0.3 forgets these two.
AgentOption = Annotated[
    list[str] | None, typer.Option("--agent", "-a", hidden=True, callback=gone("--agent"))
]
BaselineOption = Annotated[
    list[str] | None, typer.Option("--baseline", "-b", hidden=True, callback=gone("--baseline"))
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
