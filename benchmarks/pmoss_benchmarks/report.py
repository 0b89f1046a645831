"""The figures a benchmark publishes: what was measured, how widely it spread, on what machine."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

from pmoss_env import __version__
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.files import read_json, write_atomically
from pmoss_env.provenance import MEASURED, MODELLED, code_of, describe_machine, provenance

#: Commands in stored reports that have another name today.
RENAMED = {"pmoss benchmark neighbours ": "pmoss benchmark co-tenants "}
#: What a benchmark is kept in beside its report, until all is done.
_KEPT = ".partial"


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        name: what was measured.
        unit: of all values.
        median: over the rounds.
        low: least of the rounds.
        high: greatest of the rounds.
        rounds: how many there were.
        goal: what the project wants to reach, in words with the number; empty if nothing.
        reached: whether the median reaches the goal; None without one.
        note: what the figure depends on.
    """

    name: str
    unit: str
    median: float
    low: float
    high: float
    rounds: int
    goal: str = ""
    reached: bool | None = None
    note: str = ""

    @classmethod
    def of(cls, name: str, unit: str, values: Sequence[float], **more: Any) -> Figure:
        """The figure of several rounds."""
        return cls(
            name, unit, statistics.median(values), min(values), max(values), len(values), **more
        )

    def with_goal(self, words: str, reached: bool) -> Figure:
        """The same figure, held against a goal."""
        return Figure(**{**asdict(self), "goal": words, "reached": reached})


class Report:
    """Figures of a benchmark's parts, each with the command that made it, on one machine.

    Attributes:
        machine: see describe_machine().
        parts: figures by part.
    """

    def __init__(self, path: Path | None = None) -> None:
        """An empty report, or what lies at ``path`` so far.

        Args:
            path: where add() writes it; None: nowhere.

        Raises:
            DescriptionError: the file holds something else, or figures of another machine.
        """
        self.machine = describe_machine()
        self.parts: dict[str, list[Figure]] = {}
        self._commands: dict[str, str] = {}
        self._code: dict[str, dict[str, Any]] = {}
        self._path = path
        if path is None or not path.exists():
            return
        try:
            content = read_json(path)
            for name, part in content["parts"].items():
                self._commands[name] = part["command"]
                self._code[name] = part.get("code", {})
                self.parts[name] = [Figure(**figure) for figure in part["figures"]]
            machine = content["machine"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DescriptionError(
                f"{path}: is no report of figures: write another file"
            ) from error
        if machine != self.machine:
            differ = [key for key, value in self.machine.items() if machine.get(key) != value]
            raise DescriptionError(
                f"{path}: is of another machine ({', '.join(differ)} differ): write another file"
            )

    def add(self, part: str, command: str, figures: list[Figure], module: str) -> None:
        """Takes the figures of a part in place of older ones, and writes them.

        Args:
            part: its name.
            command: that measured it.
            figures: of the part.
            module: that measured it.
        """
        self.parts[part], self._commands[part] = figures, command
        self._code[part] = code_of([module], MEASURED)
        if self._path is not None:
            content = {
                "version": __version__,
                "machine": self.machine,
                "parts": {
                    name: {
                        "command": self._commands[name],
                        "code": self._code[name],
                        "figures": [asdict(figure) for figure in of_part],
                    }
                    for name, of_part in self.parts.items()
                },
            }
            write_atomically(self._path, json.dumps(content, indent=2) + "\n")


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


def seconds_of(
    work: Callable[[], object], rounds: int, clock: Callable[[], float] = process_time
) -> list[float]:
    """Seconds of each round: CPU time, which leaves out what other processes took, or another."""
    seconds = []
    for _ in range(rounds):
        start = clock()
        work()
        seconds.append(clock() - start)
    return seconds
