"""The block about users' libraries: two schedules each, and what the way costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pmoss_benchmarks.performance.libraries import SCHEDULES
from pmoss_benchmarks.report import markdown_row
from pmoss_benchmarks.texts.stored import Stored, made, table

#: What each part is about, and the words before its table.
_HELD = {
    "plugin": "Our B+-tree as a library beside the built-in one, per CPU second of a worker.",
    "recording": "What `pmoss index record` finds out of our B+-tree as a library, beside the "
    "built-in recorder.",
}


def libraries(stored: Stored) -> str:
    """Every machine on which they were measured."""
    lines: list[str] = []
    for path in sorted((stored.folder / "performance").glob("*.json")):
        report = stored[f"performance/{path.name}"]
        link = f"benchmarks/results/performance/{path.name}"
        if part := report["parts"].get("libraries"):
            lines += [
                f"On `{path.stem}`.",
                "",
                *_schedules(part["figures"]),
                "",
                made({**report, **part}, link),
                "",
            ]
        for name, words in _HELD.items():
            if part := report["parts"].get(name):
                rows = [_row(figure) for figure in part["figures"]]
                lines += [
                    f"On `{path.stem}`. {words}",
                    "",
                    table(["figure", "goal", "median [least, most]"], rows),
                    "",
                ]
                lines += [made({**report, **part}, link), ""]
    return "\n".join(lines).rstrip()


def _schedules(figures: list[Mapping[str, Any]]) -> Iterator[str]:
    """A row for each library: its rate under each schedule, and the ratio of the two."""
    of: dict[str, dict[str, str]] = {}
    for figure in figures:
        library, schedule = figure["name"].rsplit(", ", 1)
        spread = f"{figure['median']:.3g} [{figure['low']:.3g}, {figure['high']:.3g}]"
        of.setdefault(library, {})[schedule] = spread
    schedules = list(next(iter(of.values())))
    yield markdown_row(["library", *(f"{s}, Mq/s" for s in schedules[:-1]), schedules[-1]])
    yield markdown_row(["---"] * (len(schedules) + 1))
    for library, spreads in of.items():
        yield markdown_row([library, *(spreads[name] for name in schedules)])
    yield ""
    yield f"Medians [least, most] of {figures[0]['rounds']} rounds."
    for note in dict.fromkeys(figure["note"] for figure in figures):
        named = [figure["name"].rsplit(", ", 1)[0] for figure in figures if figure["note"] == note]
        yield f"Measured for {', '.join(dict.fromkeys(named))}."
        yield f"The setting: {note}."
    yield ""
    yield f"The last column is the rate under `{SCHEDULES[1]}` over that under `{SCHEDULES[0]}`."
    yield f"`{SCHEDULES[0]}` gives each core as many slices. `{SCHEDULES[1]}` gives a core as much"
    yield "work as its counters say that it can do. It pays where the ratio is above 1."
    yield "Where a query is short, routing takes most of a core, and no slice's counters hold that."


def _row(figure: Mapping[str, Any]) -> tuple[str, str, str]:
    name = figure["name"].replace("recorded library / built-in recorder - 1: ", "")
    name = name.replace("B+-tree as a library / built in: ", "")
    one = figure["rounds"] == 1
    spread = "" if one else f" [{figure['low']:.4g}, {figure['high']:.4g}]"
    missed = ", missed" if figure["reached"] is False else ""
    return name, figure["goal"], f"{figure['median']:.4g}{spread} {figure['unit']}{missed}"


BLOCKS = {"libraries": libraries}
