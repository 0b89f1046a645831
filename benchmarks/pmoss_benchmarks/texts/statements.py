"""Published statements: our figures, their verdicts, and causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pmoss_benchmarks.texts.stored import Stored, made, table

Verdict = Mapping[str, Any]
_RESULTS = "benchmarks/results/"
FITTED = "A fitted figure set a value that no source gives, so it is no evidence."


def told(found: Sequence[Verdict], stored: Stored) -> str:
    """The table of some statements, and the causes of what lies outside."""
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
    parts += [_causes(found)] if any(map(_misses, found)) else []
    return "\n\n".join(parts)


def _causes(found: Sequence[Verdict]) -> str:
    lines = [
        f"- {one['number']}. Cause: {one['cause'] or 'not known'}." for one in found if _misses(one)
    ]
    return "\n\n".join(["### What lies outside, or is not modelled", "\n".join(lines)])


def _misses(verdict: Verdict) -> bool:
    return verdict["verdict"] in ("outside", "not modelled")


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
