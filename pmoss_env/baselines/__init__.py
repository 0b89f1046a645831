"""Schedules without learning: the papers', greedy and kernel-like ones, and searches.

Every baseline is a function ``baseline(context) -> Schedule``; make_baseline() gives it by name.
"""

from pmoss_env.baselines.annealing import anneal
from pmoss_env.baselines.best_fit import best_fit, predicted_times
from pmoss_env.baselines.catalog import (
    BASELINES,
    SEARCHES,
    SHARED_BASELINES,
    STATIC_BASELINES,
    baseline_names,
    budget_of,
    find_baseline,
    has_budget,
    incumbent,
    information_of,
    is_own,
    make_baseline,
    needs_backend,
)
from pmoss_env.baselines.context import COUNTERS, MODEL, NOTHING, Baseline, Context, uses
from pmoss_env.baselines.exact import branch_and_bound
from pmoss_env.baselines.kernel_like import balance_two_levels, spread_by_misses
from pmoss_env.baselines.load_aware import (
    core_speed,
    longest_first,
    lpt,
    lpt_capacity,
    slice_load,
)
from pmoss_env.baselines.marginal import greedy_marginal
from pmoss_env.baselines.measured_search import answer_after, measured_search
from pmoss_env.baselines.papers import (
    grouped,
    grouped_context,
    in_runs,
    mixed,
    random,
)
from pmoss_env.baselines.search import local_search
from pmoss_env.baselines.walk import DEFAULT_BUDGET, SearchResult
from pmoss_env.measurements import Measurements

__all__ = [
    "BASELINES",
    "COUNTERS",
    "DEFAULT_BUDGET",
    "MODEL",
    "NOTHING",
    "SEARCHES",
    "SHARED_BASELINES",
    "STATIC_BASELINES",
    "Baseline",
    "Context",
    "Measurements",
    "SearchResult",
    "anneal",
    "answer_after",
    "balance_two_levels",
    "baseline_names",
    "best_fit",
    "branch_and_bound",
    "budget_of",
    "core_speed",
    "find_baseline",
    "greedy_marginal",
    "grouped",
    "grouped_context",
    "has_budget",
    "in_runs",
    "incumbent",
    "information_of",
    "is_own",
    "local_search",
    "longest_first",
    "lpt",
    "lpt_capacity",
    "make_baseline",
    "measured_search",
    "mixed",
    "needs_backend",
    "predicted_times",
    "random",
    "slice_load",
    "spread_by_misses",
    "uses",
]
