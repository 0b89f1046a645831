"""What commands print, in lines of at most 100 columns."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pmoss_agents import explaining as explaining
from pmoss_agents import rollouts as rollouts
from pmoss_benchmarks.study.function import Cell, Row, Run

MEASURES_HOST = True


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        commands: of ``pmoss``, by the name of their row.
    """

    AXES: ClassVar = ("commands",)

    commands: dict[str, str]


def cells(settings: Settings) -> list[Cell]:
    """The commands."""
    return [{"name": name, "asked": command} for name, command in settings.commands.items()]


def measure(run: Run, cell: Cell) -> Row:
    """Runs a command.

    Returns:
        "output": what it prints.

    Raises:
        CalledProcessError: it fails.
    """
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        cell["asked"].split(),
        env={**os.environ, "PATH": programs, "COLUMNS": "100", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {"output": "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip()}
