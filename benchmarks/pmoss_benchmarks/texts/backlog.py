"""The block about backlogs: all queries served, against the workload's mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pmoss_benchmarks.spatial.backlog import STARVED, WORKLOADS
from pmoss_benchmarks.texts.stored import PLACED, SHARED, Stored, counted, made, percent, table

#: The paper's eight schedules, by what they are called there; then rules.
_PAPER = {**SHARED, **PLACED}
_RULES = ("lpt", "greedy-capacity", "best-fit")

Row = Mapping[str, float]


def backlog(stored: Stored) -> str:
    """Every pair of server and workload: rules, the paper's schedules and three searches."""
    report = stored["backlog.json"]
    settings, cells = report["settings"], report["cells"]
    budget = max(settings["budgets"])
    searches = {name: f"search-{budget}-{name}" for name in ("served", "mix", "closed")}
    mine = sorted(cells, key=lambda cell: WORKLOADS.index(cell["workload"]))
    columns = [f"`{name}`" for name in _RULES]
    columns += [f"search, {name}" for name in ("all", "mix", "closed load")]
    return "\n".join(
        [
            "The schedules of the paper:",
            "",
            table(["server, workload", *_PAPER.values()], _rows(mine, _PAPER)),
            "",
            "Rules, and searches:",
            "",
            table(["server, workload", *columns], _rows(mine, (*_RULES, *searches.values()))),
            "",
            "Each cell: all queries served / the mix served, in Mq/s, and the share of slices that "
            f"are starved. A starved one gets less than {percent(STARVED)} of its share. "
            f"Means over {counted(settings['instances'], 'workload instance')}. "
            f"A search has {budget:,} evaluations of the analytic model. Its name says what it "
            "looks at.",
            *_sentences(cells, searches),
            made(report, "benchmarks/results/backlog.json"),
            *_simulated(stored),
        ]
    )


def _rows(cells: Sequence[Any], names: Iterable[str]) -> list[list[str]]:
    of_all = tuple(names)
    return [
        [
            f"{cell['machine']}, `{cell['workload']}`",
            *(both(cell["rows"][name]) for name in of_all),
        ]
        for cell in cells
    ]


def both(row: Row) -> str:
    """All queries served / the mix served, and the share of starved slices."""
    return f"{row['served']:.0f} / {row['mix']:.0f}, {percent(row['starved'])}"


def _sentences(cells: list[Any], searches: Mapping[str, str]) -> list[str]:
    served, mix, closed = (searches[name] for name in ("served", "mix", "closed"))
    gamed = [
        (row[served]["served"] / row[mix]["served"], row[served]["mix"] / row[mix]["mix"])
        for row in (cell["rows"] for cell in cells)
    ]
    more, less = ([pair[i] for pair in gamed] for i in (0, 1))
    lines = [
        f"On {counted(len(cells), 'pair')} the search for all queries serves {min(more):.2f} to "
        f"{max(more):.2f} times what the search for the mix serves in all.",
        f"Of the mix it serves {min(less):.2f} to {max(less):.2f} times as much.",
    ]
    by_closed = [cell["rows"][closed]["mix"] / cell["rows"][mix]["mix"] for cell in cells]
    lines.append(
        "The search under a closed load, which is no backlog, finds "
        f"{min(by_closed):.2f} to {max(by_closed):.2f} times the mix of the search for it."
    )
    return lines


def _simulated(stored: Stored) -> list[str]:
    """What the simulated server measured of the same schedules."""
    report = stored["backlog-simulated.json"]
    workloads = report["settings"]["confirmed"]
    cells = [cell for cell in report["cells"] if cell["workload"] in workloads]
    budget = max(report["settings"]["budgets"])
    rows = [
        (
            f"{cell['machine']}, `{cell['workload']}`",
            *(
                f"{row['simulated_served']:.0f} / {row['simulated_mix']:.0f}"
                for row in (cell["rows"][name] for name in _simulated_names(budget))
            ),
        )
        for cell in cells
    ]
    columns = ["`random`", "`lpt`", "search, all", "search, mix"]
    return [
        "",
        "The simulated server measures the same schedules so:",
        "",
        table(["server, workload", *columns], rows),
        "",
        made(report, "benchmarks/results/backlog-simulated.json"),
    ]


def _simulated_names(budget: int) -> tuple[str, ...]:
    return "random", "lpt", f"search-{budget}-served", f"search-{budget}-mix"


BLOCKS = {"backlog": backlog}
