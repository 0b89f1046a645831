"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", help="key=value of the environment; repeatable, value as JSON."),
]
BackendOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="key=value of the backend; repeatable, value as JSON."),
]
