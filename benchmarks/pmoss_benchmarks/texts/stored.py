"""The committed results, read once, and the forms in which texts show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pmoss_benchmarks.offline.summary import summarise
from pmoss_benchmarks.study.store import Results
from pmoss_env.errors import DatasetError
from pmoss_env.provenance import has_digests, processors_of

#: Published names of the paper's schedules, in the order of the tables.
SHARED = {
    "os-default": "OS:D",
    "os-interleave": "OS:I",
    "shared-everything": "SE:N",
    "shared-nothing-node": "SN:N",
}
PLACED = {"grouped": "Grouped", "spread": "Spread", "mixed": "Mixed", "random": "Random"}


#: Reports with cells that are studies now.
_CELLS = {"backlog-learned.json": "served", "counter-changes.json": "counter-changes"}


def _suite_of(name: str) -> str | None:
    """The study of an offline suite's summary."""
    parts = name.split("/")
    return parts[1] if parts[0] == "offline" and parts[-1] == "summary.json" else None


class Stored:
    """The results of a checkout.

    Attributes:
        root: of the checkout.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: dict[str, Any] = {}

    @property
    def folder(self) -> Path:
        """Where the results are."""
        return self.root / "benchmarks" / "results"

    def __getitem__(self, name: str) -> Any:
        """The content of a JSON file by its path below ``benchmarks/results``.

        Raises:
            DatasetError: it is missing or no JSON.
        """
        if (study := _suite_of(name)) is not None:
            return self._suite(study)
        if name in _CELLS:
            stored = Results(self.root)[_CELLS[name]]
            again = {"command": f"pmoss study run {_CELLS[name]}", "cells": list(stored.rows)}
            return {**stored.run_of(stored.rows[0]), "settings": stored.settings, **again}
        if name not in self._read:
            path = self.folder / name
            try:
                self._read[name] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise DatasetError(f"{path}: cannot be read: {error}") from error
        return self._read[name]

    def _suite(self, study: str) -> Any:
        """A study in which policies play, as its summary."""
        if study not in self._read:
            stored = Results(self.root)[study]
            summary = summarise(stored.settings, stored.rows)
            cells = {
                f"{cell['track']}/{cell['task']}/{cell['agent']}/{cell['seed']}": {
                    **cell,
                    **({"shared": {cell["agent"]: cell["shared"]}} if "shared" in cell else {}),
                    "version": stored.run_of(cell)["version"],
                    "cpu_model": stored.run_of(cell)["machine"]["cpu_model"],
                }
                for cell in summary["cells"]
            }
            run = {**list(stored.runs.values())[-1], "command": f"pmoss study run {study}"}
            self._read[study] = {**run, "suite": study, **summary, "cells": cells}
        return self._read[study]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def made(report: Mapping[str, Any], link: str) -> str:
    """A sentence that says where figures come from, and the command that made them.

    Args:
        report: with the command and the machine.
        link: of the file from the checkout; a name below the results is shown without a link.
    """
    machine = report["machine"]
    name = f"[`{Path(link).name}`]({link})" if link.startswith("benchmarks/") else f"`{link}`"
    return (
        f"Made on {processors_of(report)}, {machine['cpus']} CPUs, and stored in {name}. "
        f"{version_of(report)}\n\n```console\n{prompts(report)}\n```"
    )


def prompts(report: Mapping[str, Any]) -> str:
    """The commands that made a report, those whose rows it kept first; each after a prompt."""
    commands = [*report.get("kept_commands", ()), report["command"]]
    return "\n".join(f"$ {command}" for command in commands)


def version_of(report: Mapping[str, Any]) -> str:
    """A sentence on the versions that made a result, and on digests of its code."""
    # Only what a text can say for ever: `pmoss dev report --stale` lists what has changed since.
    kept = "" if has_digests(report) else "without digests of its code, "
    made = {report.get("version", "of an unnamed version")}
    if isinstance(cells := report.get("cells"), dict):
        # Those of an older version say so.
        made |= {cell["version"] for cell in cells.values() if "version" in cell}
    return f"The result is {kept}by pmoss-env {' and '.join(sorted(made))}."


def interval(value: float, low: float | None, high: float | None, digits: int = 1) -> str:
    """A value with its interval, with so many digits."""
    shown = f"{value:.{digits}f}"
    return shown if low is None else f"{shown} [{low:.{digits}f}, {high:.{digits}f}]"


def percent(share: float) -> str:
    """A share in whole per cent."""
    return f"{share:.0%}".replace("%", " %")


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number and its noun."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
