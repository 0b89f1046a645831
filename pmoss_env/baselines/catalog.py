"""The baselines by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pmoss_env.baselines.annealing import anneal_schedule
from pmoss_env.baselines.best_fit import best_fit
from pmoss_env.baselines.context import Baseline, Context
from pmoss_env.baselines.exact import exact_schedule
from pmoss_env.baselines.kernel_like import balance_two_levels, spread_by_misses
from pmoss_env.baselines.load_aware import greedy, greedy_capacity, lpt, lpt_capacity
from pmoss_env.baselines.marginal import greedy_marginal_schedule
from pmoss_env.baselines.papers import (
    grouped,
    mixed,
    os_default,
    os_interleave,
    random,
    shared_everything,
    shared_nothing_node,
    spread,
)
from pmoss_env.baselines.search import search_schedule
from pmoss_env.errors import UnknownNameError, UnsupportedError
from pmoss_env.types import Schedule


def incumbent(context: Context) -> Schedule:
    """Leaves everything where it is; UnsupportedError if nothing runs yet."""
    if context.incumbent is None:
        raise UnsupportedError("the baseline 'incumbent' needs an incumbent schedule")
    return context.incumbent


#: The baselines that ask a backend, with a budget of evaluations.
SEARCHES: Mapping[str, Callable[..., Schedule]] = {
    "local-search": search_schedule,
    "annealing": anneal_schedule,
    "greedy-marginal": greedy_marginal_schedule,
}
#: The baselines that give every slice a core, as environments do.
BASELINES: Mapping[str, Baseline] = {
    "grouped": grouped,
    "spread": spread,
    "mixed": mixed,
    "random": random,
    "incumbent": incumbent,
    "lpt": lpt,
    "lpt-capacity": lpt_capacity,
    "greedy": greedy,
    "greedy-capacity": greedy_capacity,
    "best-fit": best_fit,
    "two-level": balance_two_levels,
    "counter-threshold": spread_by_misses,
    **SEARCHES,
    "exact": exact_schedule,
}
#: The paper's schedules in which workers share slices: to be measured, not to be placed.
SHARED_BASELINES: Mapping[str, Baseline] = {
    "os-default": os_default,
    "os-interleave": os_interleave,
    "shared-everything": shared_everything,
    "shared-nothing-node": shared_nothing_node,
}
#: The functions among them that ask a backend after every move.
ASKING: tuple[Callable[..., Schedule], ...] = (*SEARCHES.values(), exact_schedule)
#: The baselines that need no measurement: what an incumbent is drawn from.
STATIC_BASELINES = ("grouped", "spread", "mixed", "random")


def make_baseline(name: str, *, budget: int | None = None, shared: bool = False) -> Baseline:
    """The baseline of a name.

    Args:
        name: a key of BASELINES, or of SHARED_BASELINES where those will do.
        budget: evaluations of the backend, of SEARCHES only.
        shared: whether workers may share slices. An environment places every slice on a core.

    Raises:
        UnknownNameError: no such baseline.
        UnsupportedError: a budget for a baseline that does not search, or a baseline whose workers
            share slices where that will not do.
    """
    known = {**BASELINES, **SHARED_BASELINES}
    if name not in known:
        raise UnknownNameError("baseline", name, known if shared else BASELINES)
    if name in SHARED_BASELINES and not shared:
        raise UnsupportedError(
            f"the baseline {name!r} lets workers share slices, which can be measured but not "
            f"placed; those that place are {', '.join(sorted(BASELINES))}"
        )
    if budget is None:
        return known[name]
    if name not in SEARCHES:
        raise UnsupportedError(
            f"the baseline {name!r} takes no budget: only {', '.join(SEARCHES)} do"
        )
    return partial(SEARCHES[name], budget=budget)
