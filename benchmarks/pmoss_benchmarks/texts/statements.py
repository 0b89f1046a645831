"""Published statements: our figures, their verdicts, and what the studies' switches change.

A statement that lies outside has a cause in words. A switch shows a cause: with one condition
changed the same question is asked again, and its figure moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from pmoss_benchmarks.texts.stored import Stored, counted, made, percent, table

Verdict = Mapping[str, Any]
_RESULTS = "benchmarks/results/"
_SWITCHES = "studies/switches/summary.json"
FITTED = "A fitted figure set a value that no source gives, so it is no evidence."
#: A figure so close to the end of a range is level with it: no order is shown.
_LEVEL = 5e-4
#: Figures that differ by less are all the same: nothing but the switch decides them.
_SAME = 0.01
#: The share of the way to the range from which on a switch shows a cause in part.
_PART = 0.5
#: What stands where, in the order of the table.
KINDS = {
    "inside": "inside what is accepted",
    "shown": "outside, and inside with a switch or over instances",
    "in part": "outside, and a switch comes at least half of the way",
    "not shown": "outside, and no switch comes half of the way",
    "not modelled": "not modelled",
}
_TOLD = {
    "as judged": "500 cycles per query more than our index's code takes, and a backlog",
    "no overhead": "a query takes what our index's code takes",
    "NUMA balancing": "the kernel moves pages to those who read them, as in the paper",
    "closed load": "the worker of a query has a few of them at a time, and no backlog",
    "the mix counts": "the rate at which the workload's mix is served, for search and figure",
    "search for the backlog": "the search looks at the backlog, too, and may starve cold slices",
    "search for the backlog, no overhead": "both",
    "hot keys side by side": "the hottest keys follow each other, and the load is closed",
    "queues interleaved": "under OS:I the queues of workers are spread over the nodes, too",
    "queues interleaved, hot keys side by side": "both",
    "original routers": "queries pass the routers, at the speed of the authors' snapshot",
    "first touch": "slices stay where they were loaded, on one node",
    "far as near": "memory and lines of other nodes cost what a core's own do",
    "caches 64 times as large": "of the last level",
    "distances on the mesh": "cores of Grace Hopper are as far as their stops on its mesh",
    "complexes of four cores": "of Rome, as the paper's text has them, and not of two",
}


class Moved(msgspec.Struct, frozen=True):
    """What a switch makes of a statement.

    Attributes:
        case: of the switch.
        value: the figure.
        inside: whether it lies inside, and not level with an end of the range.
        closed: the share of the way to the range that it comes; below 0: it goes away from it.
    """

    case: str
    value: float
    inside: bool
    closed: float


def told(found: Sequence[Verdict], stored: Stored) -> str:
    """The table of some statements, the switches, and the causes of what lies outside."""
    if not found:
        return ""
    stood = any("random" in verdict for verdict in found)
    head = ["no.", "statement", "the paper has", "accepted", "simulated", "by the model"]
    cells = []
    for verdict in found:
        cell = [
            verdict["number"],
            verdict["statement"],
            verdict["expected"],
            f"{verdict['low']:g} .. {verdict['high']:g}",
            *(_value(verdict["got"].get(name)) for name in ("simulated", "analytic")),
        ]
        if stood:
            cell.append(_value(verdict.get("random", {}).get("simulated")))
        cells.append([*cell, verdict["verdict"]])
    columns = [*head, *(["Random in its place"] if stood else []), "verdict"]
    parts = ["## Statements", table(columns, cells)]
    if stood:
        parts.append(
            "A search of the model stands in the place of P-MOSS. Where Random passes as well, "
            "the statement tells nothing about a policy."
        )
    if any(verdict["verdict"] == "fitted" for verdict in found):
        parts.append(FITTED)
    parts += [made(stored["validation.json"], f"{_RESULTS}validation.json")]
    parts += [part for part in (_switches(found, stored), _causes(found, stored)) if part]
    return "\n\n".join(parts)


def tally(pages: Mapping[str, str], stored: Stored) -> str:
    """How many statements stand where, and what each switch makes of all of them.

    Args:
        pages: by the number of a statement, the page that it is on.
        stored: the results.
    """
    asked = [one for one in stored.validation if one["number"] in pages]
    kinds = {one["number"]: standing(one, stored) for one in asked}
    rows = []
    for kind, words in KINDS.items():
        mine = [number for number in kinds if kinds[number] == kind]
        links = ", ".join(f"[{number}]({pages[number]}.md)" for number in mine)
        rows.append([words, str(len(mine)), links])
    cases = _cases(stored)
    lines = []
    for case in cases:
        values = {one["number"]: cases[case]["got"].get(one["number"], [])[:1] for one in asked}
        inside = [one["number"] for one in asked if _inside(one, values[one["number"]])]
        came = [number for number in inside if kinds[number] != "inside"]
        left = [n for n in kinds if kinds[n] == "inside" and n not in inside]
        counts = [str(len(few)) for few in (inside, came, left)]
        if _is_level(cases[case]["got"]):
            counts = ["all the same", "", ""]
        lines.append([case, _TOLD[case], *counts])
    return "\n\n".join(
        [
            "### How many of its statements hold",
            f"The pages D1 to D17 judge {counted(len(asked), 'statement')}.",
            table(["the figure lies", "statements", "which"], rows),
            "Each was asked again with every switch, on the first workload instance and by the "
            "analytic model. A figure that is level with an end of its range, within "
            f"{_LEVEL:g}, is not counted as inside here. Where a switch makes all figures the "
            "same, it shows nothing.",
            table(["switch", "what differs", "inside", "come inside", "leave"], lines),
            "A switch that brings statements inside may also make others leave, so none of them "
            "is what the authors' servers did. A cause in part is a weaker finding than the first.",
            made(stored[_SWITCHES], f"{_RESULTS}{_SWITCHES}"),
        ]
    )


def standing(verdict: Verdict, stored: Stored) -> str:
    """Which of KINDS a statement is."""
    if verdict["verdict"] != "outside":
        return str(verdict["verdict"])
    moved = moves(verdict, stored)
    if any(one.inside for one in moved):
        return "shown"
    return "in part" if any(one.closed >= _PART for one in moved) else "not shown"


def moves(verdict: Verdict, stored: Stored) -> list[Moved]:
    """What a statement comes to with each switch, and over all instances; the best first."""
    cases = _cases(stored)
    usual, *others = cases
    number = verdict["number"]
    before = cases[usual]["got"].get(number, [])[:1]
    if not before or not _away(verdict, before[0]):
        return []
    values = {
        case: cases[case]["got"][number][0]
        for case in others
        if number in cases[case]["got"] and not _is_level(cases[case]["got"])
    }
    of_all = cases[usual]["got"][number]
    values[f"the mean of {counted(len(of_all), 'instance')}"] = float(np.mean(of_all))
    away = _away(verdict, before[0])
    found = [
        Moved(case, value, _inside(verdict, [value]), 1 - _away(verdict, value) / away)
        for case, value in values.items()
    ]
    return sorted(found, key=lambda one: (-one.inside, -one.closed))


def _switches(found: Sequence[Verdict], stored: Stored) -> str:
    """Statements over instances and with each switch; empty if the model answers none."""
    cases = _cases(stored)
    usual = next(iter(cases))
    asked = [one for one in found if one["number"] in cases[usual]["got"]]
    if not asked:
        return ""
    count = stored[_SWITCHES]["settings"]["instances"]
    rows = [[f"as judged, {count} instances"], ["Random in its place"]]
    for one in asked:
        rows[0].append(_spread(cases[usual]["got"][one["number"]]))
        rows[1].append(_spread(cases[usual]["random"].get(one["number"], [])))
    if not any(rows[1][1:]):
        del rows[1]
    for case in cases:
        told = [(one, cases[case]["got"].get(one["number"], [])[:1]) for one in asked]
        rows.append([case, *(_marked(one, values) for one, values in told)])
    columns = [f"{one['number']}, {one['low']:g} .. {one['high']:g}" for one in asked]
    return "\n\n".join(
        [
            "## Over instances, and with switches",
            table(["", *columns], rows),
            f"By the analytic model. The first row is a mean over {count} workload instances, with "
            "the least and the greatest. Below stands the first instance, with one switch each; "
            "bold figures lie inside. The [contents](index.md) say what a switch is.",
            made(stored[_SWITCHES], f"{_RESULTS}{_SWITCHES}"),
        ]
    )


def _causes(found: Sequence[Verdict], stored: Stored) -> str:
    lines = []
    for one in found:
        if one["verdict"] in ("outside", "not modelled"):
            cause = one["cause"] or "not known"
            lines.append(f"- {one['number']}. Cause: {cause}. {_evidence(one, stored)}".rstrip())
    head = "### What lies outside, or is not modelled"
    return "\n\n".join([head, "\n".join(lines)]) if lines else ""


def _evidence(verdict: Verdict, stored: Stored) -> str:
    """What the switches show about a cause, in a sentence or two."""
    moved = moves(verdict, stored)
    if not moved:
        return ""
    if inside := [one for one in moved if one.inside]:
        return (
            "Inside with: " + ", ".join(f"{one.case} ({_value(one.value)})" for one in inside) + "."
        )
    if part := [one for one in moved if one.closed >= _PART]:
        each = ", ".join(f"{one.case} ({_value(one.value)}, {percent(one.closed)})" for one in part)
        return f"A part of the way to the range with: {each}."
    best = moved[0]
    return f"No switch comes half of the way; {best.case} gives {_value(best.value)}."


def _cases(stored: Stored) -> dict[str, Mapping[str, Any]]:
    """What the statements came to, by switch; the first one has none."""
    figures = stored[_SWITCHES]["figures"]
    return {one["case"]: one for one in figures if one["study"] == "switches"}


def _is_level(got: Mapping[str, Sequence[float]]) -> bool:
    """Whether every ratio of throughputs is the same."""
    ratios = [values[0] for number, values in got.items() if int(number.rstrip("abcd")) <= 20]
    return bool(ratios) and max(ratios) - min(ratios) < _SAME


def _away(verdict: Verdict, value: float) -> float:
    """How far a value is from the range; 0 inside."""
    return float(max(verdict["low"] - value, value - verdict["high"], 0.0))


def _inside(verdict: Verdict, values: Sequence[float]) -> bool:
    low, high = verdict["low"] + _LEVEL, verdict["high"] - _LEVEL
    return bool(values) and bool(low <= float(np.mean(values)) <= high)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = (f"{end:.3g}" for end in (min(values), max(values)))
    return f"{np.mean(values):.3g}" + ("" if low == high else f" [{low}, {high}]")


def _marked(verdict: Verdict, values: Sequence[float]) -> str:
    shown = _spread(values)
    return f"**{shown}**" if _inside(verdict, values) else shown


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
