"""What commands, and the code of pages, print: in lines of at most 100 columns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from pmoss_agents import explaining as explaining
from pmoss_agents import rollouts as rollouts
from pmoss_benchmarks.study.function import Cell, Row, Run
from pmoss_benchmarks.study.store import find_root
from pmoss_env.provenance import describe_machine

MEASURES_HOST = True
#: Code of a page: its language, the file that it is written to, and its text.
BLOCK = re.compile(r"^```(python|console|cpp)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)
#: What colours words in a terminal.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Lines of an output that are kept.
_LINES = 30


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        commands: of ``pmoss``, by the name of their row.
        pages: of the documentation, whose blocks of code follow each other in one folder.
        host_pages: pages whose code measures the host, so that each host prints something else.
    """

    AXES: ClassVar = ("commands", "pages", "host_pages")

    commands: dict[str, str] = field(default_factory=dict)
    pages: list[str] = field(default_factory=list)
    host_pages: list[str] = field(default_factory=list)


def cells(settings: Settings) -> list[Cell]:
    """The commands and the pages."""
    pages = settings.pages + settings.host_pages
    return [
        *({"name": name, "asked": command} for name, command in settings.commands.items()),
        *({"name": Path(page).stem, "asked": page} for page in pages),
    ]


def measure(run: Run, cell: Cell) -> Row:
    """Runs a command, or all code of a page.

    Returns:
        "output": what it prints; of a page also its "blocks", with an output each, and "host": the
        processor, where the code measures it.

    Raises:
        CalledProcessError: it fails.
    """
    if not cell["asked"].endswith(".md"):
        return {"output": _printed(cell["asked"].split(), Path.cwd())}
    text = (find_root(Path.cwd()) / cell["asked"]).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        blocks = BLOCK.findall(text)
        outputs = [run_block(language, file, code, Path(folder)) for language, file, code in blocks]
    row = {"output": outputs, "blocks": [code for _, _, code in blocks]}
    if cell["asked"] in run.settings.host_pages:
        row["host"] = describe_machine()["cpu_model"]
    return row


def run_block(language: str, file: str, text: str, folder: Path) -> str:
    """Runs a block of a page in a folder, or writes its file there; returns what it prints."""
    if file:
        (folder / file).write_text(text, encoding="utf-8")
        return ""
    if language == "console":
        commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        return _printed(["sh", "-ec", "\n".join(commands)], folder)
    return _printed([sys.executable, "-c", text], folder)


def _printed(words: Sequence[str], folder: Path) -> str:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PATH": programs, "COLUMNS": "100", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    text = _COLOURS.sub("", done.stdout)
    lines = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").split("\n")
    return "\n".join([*lines[:_LINES], *(["..."] if len(lines) > _LINES else [])])
