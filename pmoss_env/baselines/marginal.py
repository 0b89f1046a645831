"""Greedy on marginals: moves one slice at a time to the core with the highest throughput."""

from __future__ import annotations

import numpy as np

from pmoss_env.baselines.context import MODEL, Context, uses
from pmoss_env.baselines.load_aware import lpt, slice_load
from pmoss_env.baselines.walk import DEFAULT_BUDGET, SearchResult, Walk, searchable
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Schedule


def greedy_marginal(context: Context, budget: int = DEFAULT_BUDGET) -> SearchResult:
    """From LPT, moves the heaviest slices first, each to the core where the throughput is highest.

    Evaluating a slice on every worker counts as one evaluation per worker. It repeats until the
    budget is used up or a round over all slices moves nothing.

    Args:
        context: needs ``backend`` and ``snapshot``.
        budget: evaluations of the backend.

    Raises:
        UnsupportedError: the backend is not incremental, or there is no snapshot.
        DescriptionError: a budget below 1.
    """
    backend = searchable(context, budget, "greedy on marginals")
    if context.snapshot is None:
        raise UnsupportedError("greedy on marginals needs the incumbent's snapshot")
    walk = Walk(backend, [lpt(context)], context)
    order = np.argsort(-slice_load(context.snapshot), kind="stable")
    workers = context.machine.workers
    moved = True
    while moved:
        moved = False
        for slice_ in order:
            # Evaluations of a slice, a move, and the move to undo it.
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


@uses(MODEL, needs_backend=True)
def greedy_marginal_schedule(context: Context, budget: int = DEFAULT_BUDGET) -> Schedule:
    """From LPT, moves one slice at a time to the core with the highest predicted throughput."""
    return greedy_marginal(context, budget).schedule
