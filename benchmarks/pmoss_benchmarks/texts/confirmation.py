"""The block about rows of the offline benchmark that the simulated server measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pmoss_benchmarks.spatial.confirmation.summary import (
    CONFIRMED,
    CONTRADICTED,
    FIDELITIES,
    OPEN,
)
from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, table


def confirmed(stored: Stored) -> str:
    """Every policy by the model and by the simulated server, task by task."""
    report = stored["confirmation.json"]
    lines: list[str] = []
    verdicts: Counter[str] = Counter()
    for task, told in report["tasks"].items():
        found = told["summary"]
        verdicts.update(one["verdict"] for one in found["policies"].values() if "verdict" in one)
        lines += [f"{task}, {counted(found['episodes'], 'episode')}.", "", _table(found), ""]
        lines += [_notes(found), ""]
    contradicted = [
        f"`{name}` on {task}"
        for task, told in report["tasks"].items()
        for name, one in told["summary"]["policies"].items()
        if one.get("verdict") == CONTRADICTED
    ]
    lines += [
        f"Of {verdicts.total()} differences from the best rule, {verdicts[CONFIRMED]} are "
        f"confirmed, {verdicts[OPEN]} not told apart and {verdicts[CONTRADICTED]} contradicted"
        f"{': ' + ', '.join(contradicted) if contradicted else ''}.",
        "The best rule is the one with the best mean by the model. Differences are paired. "
        "Confirmed: neither interval holds 0, and both lie on the same side. Contradicted: on "
        "different sides. Not told apart: an interval holds 0.",
        made(report, "benchmarks/results/confirmation.json"),
    ]
    return "\n".join(lines)


def _table(found: Mapping[str, Any]) -> str:
    columns = ["policy", "model, Mq/s", "simulated, Mq/s"]
    columns += [f"over {found['rule']} by the model, %", "by the simulator, %", "which is"]
    rows = []
    for name, told in sorted(
        found["policies"].items(), key=lambda item: -float(item[1]["model"]["value"])
    ):
        over = told.get("over_rule", {})
        rows.append(
            [
                name,
                *(_shown(told[key]) for key in FIDELITIES),
                *(_shown(over[key]) if over else "" for key in FIDELITIES),
                told.get("verdict", "the rule"),
            ]
        )
    return table(columns, rows)


def _shown(told: Mapping[str, Any]) -> str:
    return interval(told["value"], told["low"], told["high"])


def _notes(found: Mapping[str, Any]) -> str:
    words = []
    if found["ranks"] is not None:
        words.append(f"Spearman's correlation of the ranks of the means is {found['ranks']:.2f}.")
    if finer := found.get("finer"):
        words.append(
            f"Measured again was {counted(finer['episodes'], 'episode')}, with twice the queries "
            "and twice the cache lines. In the median over the policies throughputs differ "
            f"by {finer['throughput']:.1f} %, and those over the rule's by "
            f"{finer['over_rule']:.1f} %."
        )
    return " ".join(words)


BLOCKS = {"confirmed": confirmed}
