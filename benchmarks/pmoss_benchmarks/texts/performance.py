"""Text on speed, from the stored performance reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pmoss_benchmarks.performance.suite import PARTS
from pmoss_benchmarks.texts.stored import Stored, table, version_of
from pmoss_env.provenance import has_digests

#: The latest host of each vendor; the others stand in the table beside the files.
HOSTS = ("epyc-v669", "xeon-v769")
#: One host with older code, and with the present one.
BEFORE, AFTER = "xeon-v769-0.1", "xeon-v769"


def performance(stored: Stored) -> str:
    """The figures with a goal, on the latest host of each vendor."""
    reports = {name: stored[f"performance/{name}.json"] for name in HOSTS}
    known = {name: dict(_figures(report)) for name, report in reports.items()}
    # In the order of the parts, of whichever host has the figure.
    keys = dict.fromkeys(
        key
        for part in PARTS
        for report in reports.values()
        for key, figure in _of_part(report, part)
        if figure["goal"]
    )
    rows = [_row(key, list(known.values())) for key in keys]
    missed = []
    for name, figures in known.items():
        judged = [one["reached"] for one in figures.values() if one["goal"]]
        missed.append(f"{judged.count(False)} of {len(judged)} goals are missed on `{name}`")
    return "\n".join(
        [
            table(["figure", "goal", *HOSTS], rows),
            "",
            f"Medians [least, most]. {'. '.join(missed)}.",
            "",
            *(_described(name, report) for name, report in reports.items()),
        ]
    )


def before_and_after(stored: Stored) -> str:
    """The figures that the present code and an older one have in common, on one host."""
    reports = {name: stored[f"performance/{name}.json"] for name in (BEFORE, AFTER)}
    before, after = (dict(_figures(report)) for report in reports.values())
    rows = [
        (
            name,
            _spread(before[name, unit]),
            _spread(figure),
            f"{figure['median'] / before[name, unit]['median']:.2f}",
        )
        for (name, unit), figure in after.items()
        # What may be 0 has no ratio.
        if figure["goal"] and _least(figure, before.get((name, unit))) > 0.0
    ]
    return "\n".join(
        [
            table(["figure", BEFORE, AFTER, "after / before"], rows),
            "",
            _described(BEFORE, reports[BEFORE]),
        ]
    )


def _least(*figures: Mapping[str, Any] | None) -> float:
    """Of all rounds of some figures; 0 if one is not there."""
    return min(one["low"] if one else 0.0 for one in figures)


def _figures(
    report: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """Every figure of a report, by its name and its unit."""
    for part in PARTS:
        yield from _of_part(report, part)


def _of_part(
    report: Mapping[str, Any], part: str
) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    for figure in report["parts"].get(part, {"figures": ()})["figures"]:
        yield (figure["name"], figure["unit"]), figure


def _row(key: tuple[str, str], hosts: list[Mapping[tuple[str, str], Any]]) -> list[str]:
    """One figure on every host, each held against its own goal."""
    found = [figures.get(key) for figures in hosts]
    goals = list(dict.fromkeys(figure["goal"] for figure in found if figure and figure["goal"]))
    return [key[0], "; ".join(goals), *(_cell(figure) for figure in found)]


def _cell(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return ""
    return _spread(figure) + (", missed" if figure["reached"] is False else "")


def _spread(figure: Mapping[str, Any]) -> str:
    numbers = [_number(figure[key]) for key in ("median", "low", "high")]
    return "{} [{}, {}] {}".format(*numbers, figure["unit"])


def _number(value: float) -> str:
    """Three digits, and never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"


def _described(name: str, report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    oldest = min(report["parts"].values(), key=has_digests)
    return (
        f"- `{name}`: {machine['cpu_model']}, {machine['cpus']} CPUs, Linux {machine['kernel']}. "
        f"{version_of({**report, **oldest})}"
    )


BLOCKS = {"performance": performance, "performance-before": before_and_after}
