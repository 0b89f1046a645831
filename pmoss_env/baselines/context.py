"""What a baseline is, and what it may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pmoss_env.context import Context
from pmoss_env.types import Schedule

__all__ = ["COUNTERS", "MODEL", "NOTHING", "Baseline", "Context", "uses"]

Baseline = Callable[[Context], Schedule]

F = TypeVar("F", bound=Callable[..., Schedule])
#: What a baseline may use, in the words of the tables. It stands behind ``@uses(...)``.
NOTHING, COUNTERS, MODEL = "nothing", "the incumbent's counters", "the model"


def uses(knows: str, *, asks: bool = False) -> Callable[[F], F]:
    """Declares what a baseline may use.

    Args:
        knows: in words, e.g. NOTHING or COUNTERS.
        asks: whether it asks ``context.backend`` after every move.
    """

    def declare(baseline: F) -> F:
        baseline.knows, baseline.asks = knows, asks  # type: ignore[attr-defined]
        return baseline

    return declare
