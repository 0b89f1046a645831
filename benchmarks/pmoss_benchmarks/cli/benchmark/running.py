"""Cells of a benchmark behind a progress bar, and verdicts in colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from pmoss_env.cli.console import console, progress_bar, table

#: Colours of the verdicts of reproductions.
COLOURS = {"inside": "green", "outside": "red", "fitted": "", "not modelled": ""}


def finish(
    work: Callable[[Any], dict[str, Any]],
    cells: Sequence[Any],
    settings: dict[str, Any],
    out: Path | None,
    processes: int,
    label: str,
    **notes: Any,
) -> list[dict[str, Any]]:
    """The results of the cells; with ``out`` they are written there, with the notes."""
    from pmoss_benchmarks.cells import run_cells
    from pmoss_env.provenance import command_line

    with progress_bar(label) as bar:
        report = run_cells(
            work,
            cells,
            settings=settings,
            command=command_line(),
            out=out,
            processes=processes,
            progress=bar,
            **notes,
        )
    if out:
        console.print(f"written to {out}")
    results: list[dict[str, Any]] = report["cells"]
    return results


def show_backlog(title: str, named: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """A table of what is served under a backlog: all queries, the mix, and starved slices."""
    columns = [named, ">all served", ">mix served", ">closed load", ">starved slices"]
    cells = [
        (
            name,
            *(f"{row[key]:.1f}" for key in ("served", "mix", "closed")),
            f"{row['starved']:.0%}",
        )
        for name, row in rows.items()
    ]
    console.print(table(title, columns, cells))


def verdict(reached: bool | None) -> Text:
    """Yes, no, or nothing where there is no goal."""
    if reached is None:
        return Text("")
    return Text("yes", "green") if reached else Text("no", "red")
