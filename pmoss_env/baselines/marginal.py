"""Greedy on marginals: the best core for one slice after the other, by the backend's throughput."""

from __future__ import annotations

import numpy as np

from pmoss_env.baselines.context import MODEL, Context, uses
from pmoss_env.baselines.load_aware import lpt, slice_load
from pmoss_env.baselines.walk import DEFAULT_BUDGET, SearchResult, Walk, searchable
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Schedule


def greedy_marginal(
    context: Context, budget: int = DEFAULT_BUDGET, start: Schedule | None = None
) -> SearchResult:
    """Moves the heaviest slices first, each to the core where the throughput is highest.

    One look at a slice asks for its throughput on every worker, which counts as that many
    evaluations. It goes round until the budget is used up or a whole round moves nothing.

    Args:
        context: needs ``backend`` and ``snapshot``.
        budget: evaluations of the backend.
        start: where to begin; LPT if None.

    Raises:
        UnsupportedError: the backend is not incremental, or there is no snapshot.
        DescriptionError: a budget below 1.
    """
    backend = searchable(context, budget, "greedy on marginals")
    if context.snapshot is None:
        raise UnsupportedError("greedy on marginals needs the incumbent's snapshot")
    walk = Walk(backend, [lpt(context) if start is None else start], context)
    order = np.argsort(-slice_load(context.snapshot), kind="stable")
    workers = context.machine.workers
    moved = True
    while moved:
        moved = False
        for slice_ in order:
            # One look, and one move with its undoing.
            if budget - walk.used < workers.size + 2:
                return walk.result()
            gain = backend.marginal(int(slice_))[workers]
            walk.used += workers.size
            if context.max_slices_per_core is not None:
                count = np.bincount(walk.cores, minlength=context.machine.cores)[workers]
                gain[count >= context.max_slices_per_core] = -np.inf
            if context.slices_of_node is not None:
                allowed = [walk.allows([(int(slice_), int(core))]) for core in workers]
                gain[~np.array(allowed)] = -np.inf
            best = int(np.argmax(gain))
            if gain[best] > walk.throughput and workers[best] != walk.cores[slice_]:
                moved |= walk.attempt([(int(slice_), int(workers[best]))])
    return walk.result()


@uses(MODEL, asks=True)
def greedy_marginal_schedule(context: Context, budget: int = DEFAULT_BUDGET) -> Schedule:
    """From LPT, moves one slice after the other to the core where the model foretells most."""
    return greedy_marginal(context, budget).schedule
