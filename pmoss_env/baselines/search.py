"""Local search on a backend that evaluates single moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.baselines.context import MODEL, Context, uses
from pmoss_env.baselines.data_moves import settled, shift_data
from pmoss_env.baselines.load_aware import lpt, slice_load
from pmoss_env.baselines.walk import DEFAULT_BUDGET, SearchResult, Walk, random_change, searchable
from pmoss_env.types import Float64Array, HardwareSnapshot, Int32Array, Schedule

_Array = npt.NDArray[Any]
#: Number of candidates around a schedule before the loads are measured again.
TRIALS = 24


def local_search(
    context: Context, budget: int = DEFAULT_BUDGET, start: Schedule | None = None
) -> SearchResult:
    """Local search: takes slices off the most loaded core by moves and swaps.

    Promising moves and swaps are estimated from the measured loads, and kept if the backend's
    throughput rises. Where the estimates lead no further, random moves and swaps are tried. The
    schedule never gets worse, and the search ends when the budget is used up. Where actions choose
    nodes it also moves data, see ``data_moves``.

    Args:
        context: needs ``backend``, and ``snapshot`` unless ``start`` is given.
        budget: evaluations of the backend; each place, move or measurement is one.
        start: first schedule; the better of LPT and the incumbent if None.

    Raises:
        UnsupportedError: the backend is not incremental.
        DescriptionError: a budget below 1.
    """
    backend = searchable(context, budget, "local search")
    starts = [start] if start is not None else [lpt(context)]
    # The incumbent, LPT, and the return to the incumbent are three evaluations.
    if start is None and budget >= 3 and context.incumbent and context.allows(context.incumbent):
        starts.insert(0, context.incumbent)
    search = Walk(backend, starts, context)
    if context.chooses_node:
        search = settled(search, context, budget)
    # A measurement, a move, and the move to undo it are three evaluations.
    while budget - search.used >= 3:
        if not _improve(search, context, budget):
            _climb(search, context, budget)
            if context.chooses_node:
                shift_data(search, context, budget)
    return search.result()


def _improve(search: Walk, context: Context, budget: int) -> bool:
    """Tries the most promising moves and swaps of the most loaded core; True if one was kept."""
    for steps in promising_changes(context, search.cores, search.measure()):
        if budget - search.used <= len(steps):
            break
        if search.attempt(steps):
            return True
    return False


def promising_changes(
    context: Context, cores: Int32Array, snapshot: HardwareSnapshot, limit: int = TRIALS
) -> Iterator[list[tuple[int, int]]]:
    """Moves and swaps that take work off the most loaded core, the most promising first.

    Args:
        context: its rng orders equal estimates.
        cores: (slices,) of the schedule.

    Yields:
        A change as moves (slice, core).
    """
    machine, busy = context.machine, slice_load(snapshot)
    load = np.bincount(cores, snapshot.counter("elapsed_us"), machine.cores)
    worst = int(machine.workers[np.argmax(load[machine.workers])])
    targets = machine.workers[machine.workers != worst]
    if context.max_slices_per_core is not None:
        count = np.bincount(cores, minlength=machine.cores)
        targets = targets[count[targets] < context.max_slices_per_core]
    estimate, change = changes_of(worst, cores, targets, load, busy)
    # Equal estimates are common (idle cores): random order, so that no core is favoured.
    order = np.lexsort((context.rng.random(estimate.size), estimate))
    for candidate in order[:limit]:
        if estimate[candidate] >= load[worst]:
            return
        yield change(int(candidate))


def changes_of(
    full: int, cores: _Array, targets: _Array, load: _Array, busy: _Array
) -> tuple[Float64Array, Callable[[int], list[tuple[int, int]]]]:
    """All moves and swaps that take a slice off a core, with estimates of what they lead to.

    Args:
        full: the core.
        cores: (slices,) of the schedule.
        targets: cores that its slices may move to.
        load: (cores,) times of all cores, those of co-tenants included.
        busy: (slices,) times of the slices.

    Returns:
        (changes,) the longer time of the two cores that take part; and the change of a number, as
        moves (slice, core).
    """
    work = np.bincount(cores, busy, load.size)
    # A core with a co-tenant takes longer for the same work.
    slowness = np.divide(load, work, out=np.ones(load.size), where=work > 0)
    mine, others = np.flatnonzero(cores == full), np.flatnonzero(cores != full)
    moved = np.maximum(
        load[full] - busy[mine, None] * slowness[full],
        load[targets] + busy[mine, None] * slowness[targets],
    )
    excess = busy[mine, None] - busy[others]
    swapped = np.maximum(
        load[full] - excess * slowness[full],
        load[cores[others]] + excess * slowness[cores[others]],
    )

    def change(number: int) -> list[tuple[int, int]]:
        if number < moved.size:
            i, j = divmod(number, targets.size)
            return [(int(mine[i]), int(targets[j]))]
        i, j = divmod(number - moved.size, others.size)
        return [(int(mine[i]), int(cores[others[j]])), (int(others[j]), full)]

    return np.concatenate([moved.ravel(), swapped.ravel()]), change


def _climb(search: Walk, context: Context, budget: int) -> None:
    """Tries random moves and swaps, which find what estimates miss."""
    for _ in range(TRIALS):
        steps = random_change(search.cores, context)
        if budget - search.used <= len(steps):
            return
        if steps:
            search.attempt(steps)


@uses(MODEL, needs_backend=True)
def search_schedule(context: Context, budget: int = DEFAULT_BUDGET) -> Schedule:
    """From LPT or the incumbent, moves slices off the most loaded core while that pays."""
    return local_search(context, budget).schedule
