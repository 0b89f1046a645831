"""Giving slices to cores so that the fullest core ends as early as possible, for given times."""

from __future__ import annotations

import numpy as np

from pmoss_agents.agent import Array

#: A move must shorten the longest time by this share to count as one.
_LEAST_GAIN = 1e-5


def longest_first(times: Array, max_per_core: int | None = None) -> Array:
    """Places the slices, the longest first, each on the core that then ends earliest.

    Args:
        times: (slices, cores) what each slice takes on each core.
        max_per_core: slices that a core may get; None: any number.

    Returns:
        (slices,) int64, the core of each.
    """
    slices, cores = times.shape
    load, count = np.zeros(cores), np.zeros(cores, dtype=np.int64)
    chosen = np.zeros(slices, dtype=np.int64)
    for slice_ in np.argsort(-times.min(axis=1), kind="stable"):
        ends = load + times[slice_]
        if max_per_core is not None:
            ends[count >= max_per_core] = np.inf
        core = int(ends.argmin())
        chosen[slice_] = core
        load[core] += times[slice_, core]
        count[core] += 1
    return chosen


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
    slices, cores = times.shape
    every = np.arange(slices)
    chosen = start.copy()
    load = np.bincount(chosen, times[every, chosen], cores)
    count = np.bincount(chosen, minlength=cores)
    for _ in range(changes):
        full = int(load.argmax())
        mine, others = np.flatnonzero(chosen == full), np.flatnonzero(chosen != full)
        if not mine.size:
            break
        top, spent = load[full], times[mine, full][:, None]
        # What the two cores that take part would come to: [slice of mine, core or other slice].
        moved = np.maximum(top - spent, load + times[mine])
        moved[:, full] = np.inf
        if max_per_core is not None:
            moved[:, count >= max_per_core] = np.inf
        theirs = chosen[others]
        swapped = np.maximum(
            top - spent + times[others, full],
            load[theirs] - times[others, theirs] + times[mine][:, theirs],
        )
        move, swap = int(moved.argmin()), int(swapped.argmin()) if others.size else 0
        by_move = moved.flat[move]
        by_swap = swapped.flat[swap] if others.size else np.inf
        if not min(by_move, by_swap) < top * (1 - _LEAST_GAIN):  # nor where times are NaN
            break
        if by_move <= by_swap:
            slice_, core = mine[move // cores], move % cores
        else:
            slice_, other = mine[swap // others.size], others[swap % others.size]
            core = chosen[other]
            load[full] += times[other, full]
            load[core] -= times[other, core]
            chosen[other] = full
            count[full] += 1
            count[core] -= 1
        load[full] -= times[slice_, full]
        load[core] += times[slice_, core]
        chosen[slice_] = core
        count[full] -= 1
        count[core] += 1
    return chosen


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
