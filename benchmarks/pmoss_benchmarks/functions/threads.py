"""The Smart Scheduler paper's results on the simulated server: its figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pmoss_benchmarks.study.function import Cell, Row, Run
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_benchmarks.threads.comparison import METHODS
from pmoss_benchmarks.threads.reproduction import TABLE_1, reproduce
from pmoss_benchmarks.threads.studies import MACHINE, timings
from pmoss_env.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        seeds: runs per program and method.
    """

    AXES: ClassVar = ()

    seeds: int = 3


def cells(settings: Settings) -> list[Cell]:
    """The server."""
    return [{"machine": MACHINE}]


def measure(run: Run, cell: Cell) -> Row:
    """The whole reproduction.

    Returns:
        ``statements``, a published figure each; ``runs``, by program and method a dict of results
        per seed; ``curves`` of the pictures; ``timings``, of this host.
    """
    statements, comparison, curves = reproduce(seeds=run.settings.seeds)
    return {
        "statements": [statement.as_dict() for statement in statements],
        **asdict(comparison),
        "curves": curves,
        "timings": timings(),
    }


def _minutes(rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    """Minutes of every program under every method, and their sums."""
    (row,) = rows
    methods = list(next(iter(row["runs"].values())))
    minutes = {
        program: [float(np.mean([one["seconds"] for one in of[method]])) / 60 for method in methods]
        for program, of in row["runs"].items()
    }
    minutes["sum"] = np.sum(list(minutes.values()), axis=0).tolist()
    lines = [[name, *(f"{value:.2f}" for value in values)] for name, values in minutes.items()]
    return TableOfRows(["minutes", *(f">{method}" for method in methods)], lines)


def _statements(rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    (row,) = rows
    lines = [
        [one["statement"], one["paper"], f"{one['ours']:.4g}", one["verdict"], one["cause"]]
        for one in row["statements"]
    ]
    heads = ["statement", "paper", "ours", "verdict", "cause where it misses"]
    return TableOfRows(heads, lines)


TABLES = {"default": _minutes, "statements": _statements}


def _widths(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The confidence width of migrating one thread, over decisions."""
    (row,) = rows
    figure = new_figure(6.4, 3.6)
    axes = figure.add_subplot()
    for number, (program, widths) in enumerate(row["curves"]["widths"].items()):
        moves = [(i + 1, width) for i, (arm, width) in enumerate(widths) if arm == 1]
        # Programs that differ by the index alone lie on each other: thick and pale, thin and dark.
        over = number % 2
        axes.plot(
            *zip(*moves, strict=True),
            "--" if over else "-",
            label=program,
            linewidth=1.4 if over else 4.0,
            alpha=1.0 if over else 0.45,
        )
    axes.axvline(20, color="0.6", linestyle=":")
    axes.set(xlabel="decision", ylabel="confidence width of migrating one thread", ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def _remote_share(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Run time over the share of remote accesses, ours and the paper's."""
    (row,) = rows
    curve = row["curves"]["curve"]
    figure = new_figure(6.4, 3.6)
    axes = figure.add_subplot()
    shares = sorted(float(share) for share in curve)
    percent = [100 * share for share in shares]
    axes.plot(percent, [curve[f"{share:g}"] for share in shares], "o-", label="ours")
    paper = [TABLE_1[share] / TABLE_1[0.0] for share in shares]
    axes.plot(percent, paper, "s--", color="0.4", label="paper, table 1")
    axes.set(xlabel="remote accesses, %", ylabel="time / time without")
    axes.legend(frameon=False)
    return figure


def _times(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Minutes of every program, a bar for each method."""
    (row,) = rows
    seconds = row["curves"]["seconds"]
    figure = new_figure(8.0, 3.8)
    axes = figure.add_subplot()
    programs = list(seconds)
    width = 0.8 / len(METHODS)
    for number, method in enumerate(METHODS):
        places = [i + (number - (len(METHODS) - 1) / 2) * width for i in range(len(programs))]
        values = [seconds[program][method] / 60 for program in programs]
        axes.bar(places, values, width, label=method)
    axes.set_xticks(range(len(programs)), programs)
    axes.set(ylabel="minutes")
    axes.legend(frameon=False, ncols=2)
    return figure


PLOTS = {"convergence": _widths, "remote-share": _remote_share, "times": _times}
