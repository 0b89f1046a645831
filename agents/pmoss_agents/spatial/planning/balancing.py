"""Giving slices to cores so that the fullest core ends as early as possible, for given times."""

from __future__ import annotations

import numpy as np

from pmoss_agents.agent import Array
from pmoss_env import _native


def longest_first(times: Array, max_per_core: int | None = None) -> Array:
    """Places the slices, the longest first, each on the core that then ends earliest.

    Args:
        times: (slices, cores) what each slice takes on each core.
        max_per_core: slices that a core may get; None: any number.

    Returns:
        (slices,) int64, the core of each.
    """
    times = _contiguous(times)
    order = np.argsort(-times.min(axis=1), kind="stable")
    return _native.place_in_order(times, order, max_per_core=max_per_core or 0)


def balance(
    times: Array, start: Array, *, max_per_core: int | None = None, changes: int = 400
) -> Array:
    """Relieves the fullest core, by one move or one exchange after the other.

    Args:
        times: (slices, cores) what each slice takes on each core.
        start: (slices,) the core of each slice.
        max_per_core: slices that a core may get; None: any number.
        changes: at most so many.

    Returns:
        (slices,) the core of each; its longest time is at most that of ``start``.
    """
    start = np.ascontiguousarray(start, dtype=np.int64)
    return _native.balance(
        _contiguous(times), start, max_per_core=max_per_core or 0, changes=changes
    )


def refine(
    times: Array,
    start: Array,
    tries: int,
    rng: np.random.Generator,
    *,
    max_per_core: int | None = None,
) -> Array:
    """Goes on where balance() ends: exchanges a few slices at random, balances, keeps what helps.

    This is an iterated local search (Lourenço et al., Handbook of Metaheuristics, 2003).

    Args:
        times: (slices, cores) what each slice takes on each core.
        start: (slices,) the core of each slice.
        max_per_core: slices that a core may get; None: any number.

    Returns:
        (slices,) the core of each; its longest time is at most that of ``start``.
    """
    slices, cores = times.shape
    every = np.arange(slices)

    def load(chosen: Array) -> Array:
        return np.bincount(chosen, times[every, chosen], cores)

    best = start
    full = load(best)
    for _ in range(tries):
        on_fullest = np.flatnonzero(best == full.argmax())
        if not on_fullest.size:
            break  # no slice takes any time
        others = rng.integers(slices, size=rng.integers(1, 4))
        drawn = np.unique(np.append(others, rng.choice(on_fullest)))
        changed = best.copy()
        # Cores change hands among the drawn slices, so that each keeps its number of them.
        changed[drawn] = rng.permutation(best[drawn])
        balanced = balance(times, changed, max_per_core=max_per_core)
        balanced_load = load(balanced)
        if balanced_load.max() <= full.max():
            best, full = balanced, balanced_load
    return best


def _contiguous(times: Array) -> Array:
    return np.ascontiguousarray(times, dtype=np.float64)
