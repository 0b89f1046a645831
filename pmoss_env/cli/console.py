"""The output of the command line: one console, tables and progress bars."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Self

import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from pmoss_env.cli.output import printable

#: Columns of output to a file or a pipe: names are not broken, so that grep finds them.
_PIPE = 1000


def _width() -> int | None:
    """Columns of the console; None: those of the terminal, or of $COLUMNS."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPE


class PlainConsole(Console):
    """Prints texts without markup, emoji and control sequences.

    Texts contain names that come from files.
    """

    def __init__(self, width: int | None = None) -> None:
        super().__init__(width=width, markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich.console.Console.print, with printable texts."""
        super().print(*(printable(o) if isinstance(o, str) else o for o in objects), **options)


console = PlainConsole(_width())
#: Progress is no output: a pipe gets none of it.
_watched = console if console.is_terminal else Console(stderr=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A table; columns whose name starts with ">" are aligned to the right."""
    # As Text, so that square brackets are no markup.
    result = Table(
        title=Text(printable(title)),
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        title_justify="left",
        header_style="bold",
    )
    for column in columns:
        right = column.startswith(">")
        # Folded, because a name that is cut is useless.
        result.add_column(
            Text(column.lstrip(">")), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        result.add_row(
            *(cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row)
        )
    return result


#: The option ``--json`` of commands that list.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def show_rows(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], as_json: bool = False
) -> None:
    """Prints a table, or its rows as a JSON list of objects by column."""
    if not as_json:
        console.print(table(title, columns, rows))
        return
    names = [column.lstrip(">") or "note" for column in columns]
    cells = [[cell if isinstance(cell, int | float) else str(cell) for cell in row] for row in rows]
    show_json([dict(zip(names, row, strict=True)) for row in cells])


def show_json(value: Any) -> None:
    """Prints JSON without control sequences."""
    typer.echo(json.dumps(value, indent=1))


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:<20}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=_watched,
    )


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar as a context; call its result with (done, total)."""
    with Stages() as stages:
        yield lambda done, total: stages(label, done, total)


class Stages:
    """A progress bar per stage of a long command, and a line of text below.

    A context; call it with (stage, done, total).
    """

    def __init__(self) -> None:
        self._progress = _progress()
        self._tasks: dict[str, TaskID] = {}
        self._note = ""
        self._live = Live(get_renderable=self._view, console=_watched, refresh_per_second=10)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.note("")
        self._live.stop()
        if not _watched.is_interactive:
            # Ends the last line, which stays on the screen.
            _watched.print()

    def _view(self) -> Group:
        return Group(self._progress, *([Text(printable(self._note))] if self._note else []))

    def note(self, text: str) -> None:
        """Replaces the line of text."""
        self._note = text

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Shows the progress of a stage; a stage appears at its first call."""
        if stage not in self._tasks:
            # Starts at ``done``, so that the work of an interrupted run does not count as speed.
            self._tasks[stage] = self._progress.add_task(
                printable(stage), total=total, completed=done
            )
        self._progress.update(self._tasks[stage], completed=done, total=total)


#: Events of the live view, per query.
_SHOWN = ("instructions", "llc_misses", "memory_misses", "remote_dram")


def round_in_words(of_round: dict[str, Any]) -> str:
    """A line of the live view: throughput and counters of each node's workers in a round."""
    parts = []
    for node, rate in of_round["node_mq_per_s"].items():
        counters = of_round["node_counters_per_query"].get(node, {})
        shown = [f"{name} {counters[name]:.3g}" for name in _SHOWN if name in counters]
        parts.append(f"node {node}: {rate:.3f} Mq/s" + "".join(f", {text}" for text in shown))
    return f"{of_round['seconds']:.1f} s  " + "  ".join(parts)
