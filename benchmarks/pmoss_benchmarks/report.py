"""Reports of commands: JSON files that say where they come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pmoss_env.files import write_atomically
from pmoss_env.provenance import MODELLED, provenance

#: Commands in stored reports that have another name today.
RENAMED = {"pmoss benchmark neighbours ": "pmoss benchmark co-tenants "}


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


def markdown_row(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"
