"""Schedules without learning: the papers', greedy ones and local search.

Every baseline is a function ``baseline(context) -> Schedule``; make_baseline() gives it by name.
"""

from pmoss_env.baselines.catalog import (
    BASELINES,
    SHARED_BASELINES,
    STATIC_BASELINES,
    incumbent,
    make_baseline,
)
from pmoss_env.baselines.context import Baseline, Context
from pmoss_env.baselines.load_aware import (
    core_speed,
    greedy,
    greedy_capacity,
    longest_first,
    lpt,
    lpt_capacity,
    slice_load,
)
from pmoss_env.baselines.papers import (
    grouped,
    in_runs,
    mixed,
    os_default,
    os_interleave,
    random,
    shared_everything,
    shared_nothing_node,
    spread,
)
from pmoss_env.baselines.search import DEFAULT_BUDGET, SearchResult, local_search

__all__ = [
    "BASELINES",
    "DEFAULT_BUDGET",
    "SHARED_BASELINES",
    "STATIC_BASELINES",
    "Baseline",
    "Context",
    "SearchResult",
    "core_speed",
    "greedy",
    "greedy_capacity",
    "grouped",
    "in_runs",
    "incumbent",
    "local_search",
    "longest_first",
    "lpt",
    "lpt_capacity",
    "make_baseline",
    "mixed",
    "os_default",
    "os_interleave",
    "random",
    "shared_everything",
    "shared_nothing_node",
    "slice_load",
    "spread",
]
