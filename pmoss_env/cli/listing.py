"""`pmoss list`: what there is of a kind, or all of one thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.checks import check_name
from pmoss_env.cli import catalogs
from pmoss_env.cli.console import AsJson


@dataclass(frozen=True)
class Request:
    """What `pmoss list` is asked for.

    Attributes:
        name: of the one to show in full; None: list all.
        as_json: print JSON.
        root: folder of datasets; None: the default one.
    """

    name: str | None
    as_json: bool = False
    slices: int = 256
    root: Path | None = None


#: What shows each kind of things. Packages with commands add kinds of their own.
KINDS: dict[str, Callable[[Request], None]] = {
    "machines": lambda asked: catalogs.machines(asked.name, asked.as_json),
    "workloads": lambda asked: catalogs.workloads(asked.name, asked.slices, asked.as_json),
    "rules": lambda asked: catalogs.rules(asked.name, asked.as_json),
    "environments": lambda asked: catalogs.environments(asked.name, asked.as_json),
}


def list_(
    kind: Annotated[
        str, typer.Argument(help="agents, datasets, environments, machines, rules or workloads.")
    ],
    name: Annotated[
        str | None,
        typer.Argument(help="Show this one in full. Of agents also a domain, such as spatial."),
    ] = None,
    slices: Annotated[
        int, typer.Option(min=1, help="Of a workload: key ranges to count records of.")
    ] = 256,
    root: Annotated[
        Path | None,
        typer.Option(help="Of datasets: their folder; $PMOSS_DATASETS_PATH or ~/.pmoss/datasets."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List agents, datasets, environments, machines, rules or workloads, or show one.

    A machine is shown with the source of every value, a workload with the sizes of its slices. A
    dataset is shown by its card, as is an agent that ships trained.

    An R-tree is built and recorded when its first environment is made: with the papers' 50 million
    points in minutes, with the 5 million of the ids in -5m in seconds.

    Example: pmoss list machines milan-nps4

    Example: pmoss list workloads osm-a --slices 64

    Example: pmoss list agents spatial

    Example: pmoss list datasets pmoss/toy-btree-ycsb-a-busy-core/mixed-v0
    """
    check_name("kind", kind, KINDS)
    KINDS[kind](Request(name, as_json, slices, root))
