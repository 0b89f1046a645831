"""Simulated annealing: a search that may go downhill while it is hot."""

from __future__ import annotations

import math
from dataclasses import replace

from pmoss_env.baselines.context import MODEL, Context, uses
from pmoss_env.baselines.load_aware import lpt
from pmoss_env.baselines.walk import (
    DEFAULT_BUDGET,
    SearchResult,
    Walk,
    random_change,
    searchable,
)
from pmoss_env.types import Schedule

#: First and last temperature, as shares of the start's throughput.
_HOT, _COLD = 0.02, 0.0002


def anneal(context: Context, budget: int = DEFAULT_BUDGET) -> SearchResult:
    """Simulated annealing from LPT with random moves and swaps and geometric cooling.

    It reads no counters. A change that costs throughput is kept with probability
    exp(-loss / temperature) (Kirkpatrick, Gelatt and Vecchi, Optimization by Simulated Annealing,
    1983).

    Args:
        context: needs ``backend`` and ``snapshot``.
        budget: evaluations of the backend; each place or move is one.

    Raises:
        UnsupportedError: the backend is not incremental.
        DescriptionError: a budget below 1.
    """
    backend = searchable(context, budget, "simulated annealing")
    walk = Walk(backend, [lpt(context)], context)
    best = walk.result()
    hot, cooling = _HOT * walk.throughput, math.log(_COLD / _HOT)

    def accept(gain: float) -> bool:
        temperature = hot * math.exp(cooling * walk.used / budget)
        return gain >= 0 or context.rng.random() < math.exp(gain / temperature)

    idle = 0
    # Draws without a change are bounded, too: a single worker has no other.
    while idle < budget:
        steps = random_change(walk.cores, context)
        if budget - walk.used <= len(steps):
            break
        if not steps or not walk.allows(steps):
            idle += 1
        elif walk.attempt(steps, accept) and walk.throughput > best.throughput:
            best = walk.result()
    return replace(best, evaluations=walk.used)


@uses(MODEL, needs_backend=True)
def anneal_schedule(context: Context, budget: int = DEFAULT_BUDGET) -> Schedule:
    """Simulated annealing from LPT: random moves and swaps, of which some may cost at first."""
    return anneal(context, budget).schedule
