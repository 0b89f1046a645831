"""Figures of a host: the spread of what was measured over rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from time import process_time
from typing import Any

#: name, unit, median, low, high, rounds, note
Figure = dict[str, Any]


def figure(name: str, unit: str, values: Sequence[float], note: str = "") -> Figure:
    """The figure of several rounds.

    Args:
        name: what was measured.
        unit: of all values.
        values: one of each round.
        note: what they depend on.
    """
    median, low, high = statistics.median(values), min(values), max(values)
    spread = {"median": median, "low": low, "high": high, "rounds": len(values)}
    return {"name": name, "unit": unit, **spread, "note": note}


def cost(name: str, seconds: Sequence[float], calls: int) -> Figure:
    """The figure of one call in microseconds, from rounds of so many."""
    return figure(name, "us", [1e6 * s / calls for s in seconds], f"CPU time, {calls} a round")


def ratios(above: Sequence[float], below: Sequence[float], scale: float = 1.0) -> list[float]:
    """The ratio of two values in each round."""
    return [scale * a / b for a, b in zip(above, below, strict=True)]


def timed(
    works: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = process_time,
) -> dict[str, list[float]]:
    """Seconds of each piece of work in every round.

    They run in turn, so that all see the same host. One round before does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            start = clock()
            work()
            if number:
                seconds[name].append(clock() - start)
    return seconds
