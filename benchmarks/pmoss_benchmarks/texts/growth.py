"""Text on how costs grow, from the stored performance reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pmoss_benchmarks.performance.growth_picture import PARTS, growth_of
from pmoss_benchmarks.texts.stored import Stored, made, table

_COLUMNS = ("cost", "grows with", "from", "us", "to", "us", "exponent [least, most]")


def growth(stored: Stored) -> str:
    """Every host on which all parts were measured: a table, and its picture."""
    told = []
    for path in sorted((stored.folder / "performance").glob("*.json")):
        report = stored[f"performance/{path.name}"]
        if not set(PARTS) <= set(report["parts"]):
            continue
        link = f"benchmarks/results/performance/{path.name}"
        picture = f"../../benchmarks/results/performance/growth-{path.stem}.png"
        told += [
            table(_COLUMNS, _rows(report)),
            f"![Cost over size on {path.stem}, one panel per size]({picture})",
            # One command may have made all parts.
            *dict.fromkeys(made({**report, **report["parts"][part]}, link) for part in PARTS),
        ]
    return "\n\n".join(told)


def _rows(report: Mapping[str, Any]) -> Iterator[list[str]]:
    """Costs at the smallest and the greatest size, and how they grow."""
    for by, costs in growth_of(report).items():
        for what, figures in costs.items():
            (least, first), *_, (most, last), (_, exponent) = figures
            spread = (f"{exponent[key]:.2f}" for key in ("median", "low", "high"))
            slope = "{} [{}, {}]".format(*spread)
            first_us, last_us = f"{first['median']:.3g}", f"{last['median']:.3g}"
            yield [what, by, f"{least:,}", first_us, f"{most:,}", last_us, slope]


BLOCKS = {"growth": growth}
