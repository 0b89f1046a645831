"""How fast this software is on a host: parts beside peers, as ratios within one run."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from pmoss_benchmarks.performance import environments, programs, runtime
from pmoss_benchmarks.performance.programs import Figure
from pmoss_benchmarks.study.function import Cell, Count, Row, Rows, Run, check_names
from pmoss_benchmarks.study.tables import TableOfRows, grouped
from pmoss_env.checks import check_whole
from pmoss_env.errors import DescriptionError
from pmoss_env.provenance import describe_machine

MEASURES_HOST = True
#: What can be measured; each gives its figures.
PARTS: Mapping[str, Callable[..., list[Figure]]] = {
    "environment": environments.environment,
    "vector-environment": environments.vector_environment,
    "whole-episodes": environments.whole_episodes,
    "continual": environments.continual,
    "decision-transformer": environments.decision_transformer,
    "index": programs.index,
    "rtree": programs.rtree,
    "plugin": programs.plugin,
    "recording": runtime.recording,
    "runtime": runtime.runtime,
    "counting": programs.counting,
    "loading": runtime.loading,
    "live": runtime.live,
    "simulator": runtime.simulator,
    "scan": programs.scan,
    "routing": programs.routing,
    "scaling": programs.scaling,
}
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "+-": lambda value, bound: abs(value) <= bound,
}
_SPREAD = ("median", "low", "high")
_GOAL = re.compile(r"(?:(low|high) )?(<=|>=|\+-) ([\d.]+).*")


@dataclass(frozen=True)
class Settings:
    """What is measured. Each figure names its own rounds and keys.

    Attributes:
        host: the name of this host in the rows; empty: its processor and its kernel.
        parts: keys of PARTS.
        rounds: of each figure.
        keys: in the index, the runtime and the simulator.
        goals: what the project wants, by a figure's name or a pattern of the shell: "<= 3 x" of the
            median, "low >= 80 %" of the lowest round, "+- 5 %" on either side of 0.
    """

    AXES: ClassVar = ("host", "parts", "rounds", "keys", "goals")

    host: str = ""
    parts: tuple[str, ...] = tuple(PARTS)
    rounds: Count = 7
    keys: Count = 30_000_000
    goals: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names("part", self.parts, PARTS)
        for name, limit in (("rounds", 10_000), ("keys", 2**31)):
            check_whole(name, getattr(self, name), 1, limit)
        for name, goal in self.goals.items():
            if not _GOAL.fullmatch(goal):
                raise DescriptionError(f"goal {goal!r} of {name!r}: write one like '<= 3 x'")


def cells(settings: Settings) -> list[Cell]:
    """Every part, on this host."""
    machine = describe_machine()
    host = settings.host or f"{machine['cpu_model']} {machine['kernel']}"
    return [{"host": host, "part": part} for part in settings.parts]


def measure(run: Run, cell: Cell) -> Row:
    """The figures of a part: each with its spread over rounds, its goal, and whether it is reached.

    Raises:
        BackendError: there is no source checkout, compiler or peer that the part needs.
    """
    settings: Settings = run.settings
    figures = PARTS[cell["part"]](rounds=settings.rounds, keys=settings.keys)
    return {"figures": [_held(figure, settings.goals) for figure in figures]}


def _held(figure: Figure, goals: Mapping[str, str]) -> Figure:
    """A figure beside the first goal whose pattern its name has."""
    goal = next((goals[name] for name in goals if fnmatchcase(figure["name"], name)), "")
    reached = None
    if match := _GOAL.fullmatch(goal):
        which, sign, bound = match.groups()
        reached = _SIGNS[sign](figure[which or "median"], float(bound))
    return {**figure, "goal": goal, "reached": reached}


def hosts(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[tuple[str, str], Figure]]:
    """By host its figures by name and unit."""
    return {
        host: {(one["name"], one["unit"]): one for row in own for one in row["figures"]}
        for host, own in grouped(list(rows), "host").items()
    }


def _side_by_side(rows: Rows, *, all_figures: bool = False) -> TableOfRows:
    """A line for each figure with a goal, or for all; a column for each host."""
    of_host, lines = hosts(rows), {}
    for row in sorted(rows, key=lambda row: list(PARTS).index(row["part"])):
        for figure in row["figures"]:
            if figure["goal"] or all_figures:
                key = figure["name"], figure["unit"]
                figures = [own.get(key) for own in of_host.values()]
                goals = dict.fromkeys(own["goal"] for own in figures if own and own["goal"])
                lines[key] = [figure["name"], "; ".join(goals), *map(_cell, figures)]
    return TableOfRows(["figure", "goal", *of_host], list(lines.values()))


def _cell(figure: Figure | None) -> str:
    """Median and range with three digits, and never with an exponent."""
    if figure is None:
        return ""
    values = (figure[key] for key in _SPREAD)
    median, low, high = (f"{v:,.0f}" if abs(v) >= 100.0 else f"{v:.3g}" for v in values)
    missed = ", missed" if figure["reached"] is False else ""
    return f"{median} [{low}, {high}] {figure['unit']}{missed}"


def _scaling(rows: Rows) -> TableOfRows:
    """A line for each mix and index: Mq/s by the number of threads, and what they make of one's."""
    rates: dict[tuple[str, str], dict[str, str]] = {}
    for figure in (each for row in rows for each in row["figures"] if row["part"] == "scaling"):
        if figure["unit"] == "x":
            continue
        mix, keys, threads, index = figure["name"].split(", ", 3)
        index = index.removesuffix(", efficiency")
        column = threads if figure["unit"] == "Mq/s" else "efficiency"
        text = f"{figure['median']:.3g}" if column == threads else f"{figure['median']:.0f} %"
        # The last number of threads is the greatest.
        rates.setdefault((f"{mix}, {keys}", index), {}).pop("efficiency", None)
        rates[f"{mix}, {keys}", index][column] = text
    lines = [[mix, index, *by_threads.values()] for (mix, index), by_threads in rates.items()]
    return TableOfRows(["queries, Mq/s", "index", *next(iter(rates.values()))], lines)


TABLES: Mapping[str, Callable[[Rows], TableOfRows]] = {
    "default": lambda rows: _side_by_side(rows, all_figures=True),
    "goals": _side_by_side,
    "scaling": _scaling,
}
