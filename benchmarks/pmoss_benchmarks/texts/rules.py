"""Rules and searches: what each does, what it may use, and what it asks of a model."""

from __future__ import annotations

import inspect

from pmoss_benchmarks.texts.stored import Stored, table
from pmoss_env.baselines import (
    BASELINES,
    SHARED_BASELINES,
    find_baseline,
    information_of,
    needs_backend,
)


def rules(stored: Stored) -> str:
    """Every baseline of this project, in the words of its own code."""
    del stored  # the code is asked, and no result
    rows = []
    for name in (*BASELINES, *SHARED_BASELINES):
        baseline = find_baseline(name, shared=True)
        first = " ".join((inspect.getdoc(baseline) or "").split("\n\n", 1)[0].split())
        budget = inspect.signature(baseline).parameters.get("budget")
        evaluations = (
            f"{budget.default:,}" if budget else "all it needs" if needs_backend(baseline) else "0"
        )
        rows.append([f"`{name}`", first, information_of(name), evaluations])
    return table(["name", "what it does", "what it may use", "evaluations of the model"], rows)


BLOCKS = {"rules": rules}
