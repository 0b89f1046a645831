"""The block about backlogs: all queries served, against the workload's mix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmoss_benchmarks.spatial.backlog import STARVED, WORKLOADS
from pmoss_benchmarks.texts.stored import Stored, counted, made, percent, table

#: What the table shows of each pair, in this order; all schedules stand in the stored file.
_SHOWN = ("shared-nothing-node", "random", "grouped", "lpt", "greedy-capacity", "best-fit")

Row = Mapping[str, float]


def backlog(stored: Stored) -> str:
    """Every pair of server and workload: rules, the paper's schedules and three searches."""
    report = stored["backlog.json"]
    settings, cells = report["settings"], report["cells"]
    budget = max(settings["budgets"])
    searches = {name: f"search-{budget}-{name}" for name in ("served", "mix", "closed")}
    rows = []
    for cell in sorted(cells, key=lambda cell: WORKLOADS.index(cell["workload"])):
        of = cell["rows"]
        rows.append(
            (
                f"{cell['machine']}, `{cell['workload']}`",
                *(_both(of[name]) for name in (*_SHOWN, *searches.values())),
                percent(of[searches["served"]]["starved"]),
            )
        )
    columns = [f"`{name}`" for name in _SHOWN]
    columns += [f"search, {name}" for name in ("all", "mix", "closed load")]
    return "\n".join(
        [
            table(["server, workload", *columns, "starved"], rows),
            "",
            "Each cell: all queries served / the mix served, in Mq/s, over "
            f"{counted(settings['instances'], 'workload instance')}. A search has {budget:,} "
            "evaluations of the analytic model. Its name says what it looks at.",
            f"Starved: slices that get less than {percent(STARVED)} of their share, in the search "
            "for all queries.",
            *_sentences(cells, searches),
            made(report, "benchmarks/results/backlog.json"),
            *_simulated(stored),
        ]
    )


def _both(row: Row) -> str:
    return f"{row['served']:.0f} / {row['mix']:.0f}"


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
