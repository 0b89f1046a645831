"""The figures a benchmark publishes: what was measured, how widely it spread, on what machine."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

from pmoss_env import __version__, _native
from pmoss_env.files import write_atomically


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


@dataclass(frozen=True)
class Report:
    """The figures of one run of a benchmark, with the command and the machine that made them."""

    command: str
    figures: list[Figure]
    machine: dict[str, Any] = field(default_factory=lambda: describe_machine())

    def write(self, path: str | Path) -> None:
        """Writes JSON, whole or not at all."""
        content = {
            "command": self.command,
            "version": __version__,
            "machine": self.machine,
            "figures": [asdict(figure) for figure in self.figures],
        }
        write_atomically(path, json.dumps(content, indent=2) + "\n")


def describe_machine() -> dict[str, Any]:
    """The machine in words, as the kernel gives them."""
    facts = dict(_native.host_facts("/"))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {**facts, "cpus": len(os.sched_getaffinity(0)), "memory_gib": round(pages / 2**30, 1)}


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
