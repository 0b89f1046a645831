"""The committed reports side by side: ``python -m pmoss_benchmarks.performance.tables``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmoss_benchmarks.performance.growth_picture import PARTS as GROWTH_PARTS
from pmoss_benchmarks.performance.growth_picture import draw_growth
from pmoss_benchmarks.performance.suite import PARTS
from pmoss_benchmarks.report import markdown_row
from pmoss_env.errors import BackendError
from pmoss_env.files import write_atomically

RESULTS = Path(__file__).parents[2] / "results" / "performance"


def side_by_side(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """A table of every figure on every machine.

    Args:
        reports: contents of report files by a short name.
    """
    lines = ["# Performance", ""]
    for name, report in reports.items():
        machine = report["machine"]
        lines.append(
            f"- {name}: {machine['cpu_model']}, {machine['cpus']} CPUs, "
            f"{machine['memory_gib']} GiB, kernel {machine['kernel']}; pmoss-env "
            f"{report['version']}; the commands are in [`{name}.json`]({name}.json)"
        )
    columns = ["figure", "goal", *reports]
    lines += ["", "Median [least, most] over the rounds.", ""]
    lines += [markdown_row(columns), markdown_row(["---"] * len(columns))]
    for part in PARTS:
        by_name: dict[str, dict[str, Mapping[str, Any]]] = {}
        for name, report in reports.items():
            for figure in report["parts"].get(part, {"figures": ()})["figures"]:
                by_name.setdefault(figure["name"], {})[name] = figure
        for figure_name, found in by_name.items():
            # Goals rise: a report keeps the one that it was held against.
            goals = {figure["goal"] for figure in found.values()}
            goal = goals.pop() if len(goals) == 1 else "by report"
            cells = [
                _cell(found[name], with_goal=goal == "by report") if name in found else ""
                for name in reports
            ]
            lines.append(markdown_row([figure_name, goal, *cells]))
    return "\n".join(lines) + "\n"


def _cell(figure: Mapping[str, Any], *, with_goal: bool) -> str:
    spread = f"{figure['median']:.4g} [{figure['low']:.4g}, {figure['high']:.4g}] {figure['unit']}"
    goal = f", goal {figure['goal']}" if with_goal and figure["goal"] else ""
    return spread + goal + (", missed" if figure["reached"] is False else "")


def read_reports() -> dict[str, Any]:
    """The committed reports by the names of their files.

    Raises:
        BackendError: they are not here: they are a part of the source checkout alone.
    """
    reports = {path.stem: json.loads(path.read_text()) for path in RESULTS.glob("*.json")}
    if not reports:
        raise BackendError(f"{RESULTS} holds no stored hosts: run this in a source checkout")
    return dict(sorted(reports.items()))


def medians(report: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """The medians of a report in four digits, by name and unit of the figure."""
    figures = [figure for part in report["parts"].values() for figure in part["figures"]]
    return {(one["name"], one["unit"]): f"{one['median']:.4g}" for one in figures}


def _write() -> None:
    """The table, and a picture of every host whose growth is known."""
    reports = read_reports()
    write_atomically(RESULTS / "README.md", side_by_side(reports))
    for name, report in reports.items():
        if set(GROWTH_PARTS) <= set(report["parts"]):
            draw_growth(report, RESULTS / f"growth-{name}.png")


if __name__ == "__main__":
    _write()
