"""The catalogue of baselines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from pmoss_env.baselines.annealing import anneal_schedule
from pmoss_env.baselines.best_fit import best_fit
from pmoss_env.baselines.context import COUNTERS, NOTHING, Baseline, Context, uses
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
from pmoss_env.entry_points import entries, load
from pmoss_env.errors import PluginError, ScheduleError, UnknownNameError, UnsupportedError
from pmoss_env.types import Schedule

#: Group of entry points by which packages add baselines, functions of a Context. A search has a
#: keyword ``budget``; @uses() declares the information that a baseline uses.
GROUP = "pmoss.baselines"


@uses(NOTHING)
def incumbent(context: Context) -> Schedule:
    """Keeps the incumbent.

    UnsupportedError without an incumbent.
    """
    if context.incumbent is None:
        raise UnsupportedError("the baseline 'incumbent' needs an incumbent schedule")
    return context.incumbent


#: The searches: baselines that evaluate schedules on a backend, within a budget.
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
#: The paper's schedules with shared slices: they can be measured, but not placed.
SHARED_BASELINES: Mapping[str, Baseline] = {
    "os-default": os_default,
    "os-interleave": os_interleave,
    "shared-everything": shared_everything,
    "shared-nothing-node": shared_nothing_node,
}
_OWN: Mapping[str, Callable[..., Schedule]] = {**BASELINES, **SHARED_BASELINES}
#: The baselines without a measurement, used as incumbents.
STATIC_BASELINES = ("grouped", "spread", "mixed", "random")


def baseline_names() -> list[str]:
    """The baselines that give every slice a core, those of other packages last."""
    return [*BASELINES, *entries(GROUP, own=_OWN)]


def find_baseline(name: str, *, shared: bool = False) -> Callable[..., Schedule]:
    """The function of a baseline; see information_of() and needs_backend().

    Args:
        name: one of baseline_names(), or a key of SHARED_BASELINES if ``shared``.
        shared: whether workers may share slices. An environment places every slice on a core.

    Raises:
        UnknownNameError: no such baseline.
        UnsupportedError: a baseline with shared slices, without ``shared``.
        PluginError: a baseline of another package that cannot be loaded.
    """
    if name in SHARED_BASELINES and not shared:
        raise UnsupportedError(
            f"the baseline {name!r} lets workers share slices, which can be measured but not "
            f"placed; those that place are {', '.join(sorted(baseline_names()))}"
        )
    if name in _OWN:
        return _OWN[name]
    others = entries(GROUP, own=_OWN)
    if name not in others:
        raise UnknownNameError("baseline", name, [*(_OWN if shared else BASELINES), *others])
    return _checked(name, load(others[name]))


def _checked(name: str, baseline: Any) -> Callable[..., Schedule]:
    """A baseline of another package, whose schedules are checked."""
    if not callable(baseline):
        raise PluginError(f"the baseline {name!r}: {baseline!r} is no function of a Context")

    @wraps(baseline)
    def checked(context: Context, **options: Any) -> Schedule:
        schedule = baseline(context, **options)
        if not isinstance(schedule, Schedule):
            raise PluginError(
                f"the baseline {name!r} gave {schedule!r}, which is no pmoss_env.types.Schedule; "
                "context.machine.local_schedule(cores) makes one"
            )
        try:
            context.machine.check_schedule(schedule, context.slices)
        except ScheduleError as error:
            raise ScheduleError(f"the baseline {name!r}: {error}") from error
        return schedule

    return checked


def has_budget(baseline: str | Callable[..., Schedule]) -> bool:
    """Whether a baseline takes a budget of evaluations: it has a parameter ``budget``."""
    function = find_baseline(baseline, shared=True) if isinstance(baseline, str) else baseline
    return "budget" in inspect.signature(function).parameters


def needs_backend(baseline: Callable[..., Schedule]) -> bool:
    """Whether a baseline evaluates schedules on the backend of its context; see uses()."""
    return bool(getattr(_function(baseline), "needs_backend", False))


def is_own(baseline: Callable[..., Schedule]) -> bool:
    """Whether a baseline is one of this project, not of another package or a user."""
    return any(_function(baseline) is own for own in _OWN.values())


def _function(baseline: Callable[..., Schedule]) -> Callable[..., Schedule]:
    """The function that make_baseline() gave a budget."""
    # Not by an attribute ``func``, which an object of others may have, too.
    return baseline.func if type(baseline) is partial else baseline


def budget_of(baseline: Callable[..., Schedule]) -> int | None:
    """The evaluations that a baseline may ask for, as it was made or by default; None: any."""
    budget = inspect.signature(baseline).parameters.get("budget")
    return None if budget is None or budget.default is budget.empty else budget.default


def information_of(name: str) -> str:
    """The information that a baseline uses, as text; see uses(). The default is COUNTERS."""
    return str(getattr(find_baseline(name, shared=True), "information", COUNTERS))


def make_baseline(name: str, *, budget: int | None = None, shared: bool = False) -> Baseline:
    """The baseline of a name.

    Args:
        budget: evaluations of the backend, for searches only.

    Raises:
        UnknownNameError: no such baseline.
        UnsupportedError: a budget for a baseline that is no search, or a baseline with shared
            slices, without ``shared``.
        PluginError: a baseline of another package that cannot be loaded.
    """
    baseline = find_baseline(name, shared=shared)
    if budget is None:
        return baseline
    if not has_budget(baseline):
        raise UnsupportedError(
            f"the baseline {name!r} takes no budget: only {', '.join(SEARCHES)} do"
        )
    return partial(baseline, budget=budget)
