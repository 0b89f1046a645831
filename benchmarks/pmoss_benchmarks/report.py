"""Reports of benchmarks: written whole, and replaced by reports of the same benchmark alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pmoss_env.errors import DatasetError
from pmoss_env.files import read_json, write_atomically
from pmoss_env.provenance import MODELLED, provenance

#: Commands in stored reports that have another name today.
RENAMED = {"pmoss benchmark neighbours ": "pmoss benchmark co-tenants "}
#: What a benchmark is kept in beside its report, until all is done.
_KEPT = ".partial"


def write_report(
    path: Path, modules: Sequence[str], native: Sequence[str] = MODELLED, **content: Any
) -> None:
    """Writes the JSON report of a benchmark, whole or not at all.

    Args:
        path: of the file.
        modules: that make it; see provenance(), which is put before the content.
        native: floors of the native code that it needs.
        **content: plain JSON.
    """
    report = {**provenance(modules, native), **content}
    write_atomically(path, json.dumps(report, indent=1) + "\n")


def check_replaceable(path: Path, benchmark: str) -> None:
    """Lets a benchmark write its report where nothing is, or an earlier report of its own.

    Args:
        path: of the report to be written.
        benchmark: the word behind ``pmoss benchmark``.

    Raises:
        DatasetError: another file is there, or rows that are kept would have the same name.
    """
    if path.suffix == _KEPT:
        raise DatasetError(f"{path}: {_KEPT} is the ending of unfinished results: choose another")
    # An empty file is what a full disk left, or mktemp.
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return
    try:
        found = set(map(_benchmark_of, _commands_in(read_json(path))))
    except (OSError, ValueError, AttributeError, TypeError):
        found = set()
    if found != {benchmark}:
        raise DatasetError(
            f"{path}: is no report of `pmoss benchmark {benchmark}`, which would replace it: "
            "choose another file, or remove this one"
        )


def _commands_in(report: Any) -> Iterator[str]:
    """The command of a report, and those of its parts if it has some."""
    if "command" in report:
        yield report["command"]
    for part in report.get("parts", {}).values():
        yield part["command"]


def _benchmark_of(command: str) -> str:
    """The benchmark that a command runs, by its name of today; empty if it runs none."""
    for old, new in RENAMED.items():
        command = command.replace(old, new)
    words = shlex.split(command)
    return words[2] if words[1:2] == ["benchmark"] and len(words) > 2 else ""


def markdown_row(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"
