"""The type of baselines, and the information that they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pmoss_env.context import Context
from pmoss_env.types import Schedule

__all__ = ["COUNTERS", "MODEL", "NOTHING", "Baseline", "Context", "uses"]

Baseline = Callable[[Context], Schedule]

F = TypeVar("F", bound=Callable[..., Schedule])
#: Kinds of information for ``@uses(...)``, as tables show them.
NOTHING, COUNTERS, MODEL = "nothing", "the incumbent's counters", "the model"


def uses(information: str, *, needs_backend: bool = False) -> Callable[[F], F]:
    """Declares the information that a baseline uses.

    Args:
        information: as text, e.g. NOTHING or COUNTERS.
        needs_backend: whether it evaluates schedules on ``context.backend``.
    """

    def declare(baseline: F) -> F:
        baseline.information = information  # type: ignore[attr-defined]
        baseline.needs_backend = needs_backend  # type: ignore[attr-defined]
        return baseline

    return declare
