"""The block about continual scheduling: what opponents leave to the law oracle."""

from __future__ import annotations

from typing import Any

from pmoss_benchmarks.texts.stored import Stored, counted, made, table


def headroom(stored: Stored) -> str:
    """Policies of every task beside the law oracle."""
    report = stored["continual/headroom.json"]
    lines: list[str] = []
    for task in report["tasks"]:
        rows = [
            [
                name,
                f"{row['mean']:,.0f}",
                _with_interval(row["share_of_law"], 100.0),
                _with_interval(row["beyond_best"], 1.0),
                ", ".join(f"{key} {value:g}" for key, value in row["parameters"].items()),
            ]
            for name, row in sorted(task["policies"].items(), key=lambda pair: pair[1]["mean"])
        ]
        columns = [
            "policy",
            "million queries",
            "% of the law oracle [95 %]",
            f"beyond {task['best']} [95 %]",
            "tuned",
        ]
        left = _with_interval(task["headroom"], 100.0)
        verdict = "10 % or more" if task["standard"] else "less than 10 %"
        lines += [
            f"`{task['drift']}`, {counted(report['settings']['episodes'], 'paired episode')}.",
            "",
            table(columns, rows),
            "",
            f"On this model the law oracle serves {left} % more than `{task['best']}`: {verdict}.",
            "",
        ]
    lines.append(made(report, "benchmarks/results/continual/headroom.json"))
    return "\n".join(lines)


def _with_interval(share: dict[str, Any], unit: float) -> str:
    value = f"{unit * share['value']:.1f}"
    if share["low"] is None:
        return value
    return f"{value} [{unit * share['low']:.1f}, {unit * share['high']:.1f}]"


BLOCKS = {"continual-headroom": headroom}
