"""`pmoss benchmark`: one command per benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import typer

from pmoss_env.errors import UnsupportedError

#: Benchmarks that are studies now, by their old names; for one release.
RENAMED_STUDIES = {
    "ablation": "ablation",
    "access-path": "access-path",
    "autopilot": "autopilot",
    "backlog": "backlog",
    "budget": "budget",
    "co-tenants": "co-tenants",
    "confirm": "confirmation",
    "continual": "continual",
    "core-node": "core-node",
    "counter-changes": "counter-changes",
    "datasets": "datasets",
    "fidelity": "fidelity",
    "generalist": "generalist",
    "headroom": "headroom",
    "imitation": "imitation",
    "measured-data": "measured-data",
    "migration": "migration",
    "off-policy": "off-policy",
    "offline": "core",
    "paper": "paper",
    "performance": "performance",
    "published": "published",
    "references": "references",
    "selection": "selection",
    "served": "served",
    "studies": "conditions",
    "threads": "threads",
    "training-times": "training-times",
    "transfer": "transfer",
    "validation": "validation",
    "wanted": "wanted",
}


def _renamed(old: str, study: str) -> Callable[[typer.Context], NoReturn]:
    def moved(context: typer.Context) -> NoReturn:
        raise UnsupportedError(f"`pmoss benchmark {old}` is now `pmoss study run {study}`")

    return moved


app = typer.Typer()
for old, study in RENAMED_STUDIES.items():
    app.command(
        old,
        hidden=True,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_renamed(old, study))
