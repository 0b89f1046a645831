"""Profilers of workloads for the analytic model, by kind of index."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.backends.process_lock import Recent
from pmoss_env.backends.reporting import with_progress
from pmoss_env.indexes import index_kind
from pmoss_env.workloads import Workload

#: Largest recording of a profiler that runs the index; the default of the simulated backend.
QUERIES, LINE_SAMPLING, PAGE_SAMPLING = 2_000_000, 64, 8
#: Smallest recording.
MIN_QUERIES = 100_000
#: Number of kept profilers that have run an index; a few megabytes each.
KEPT = 8

_profilers = Recent[tuple[Workload, int], _native.Profiler](KEPT)


@lru_cache(maxsize=KEPT)
def _by_formulas(workload: Workload, slices: int) -> _native.Profiler:
    return index_kind(workload.index).make_profiler(native_workload(workload), slices)


def make_profiler(
    workload: Workload, slices: int, progress: Callable[[str, float], None] | None
) -> _native.Profiler:
    """The profiler of a workload.

    A profiler that runs the index does so once per process, workload and number of slices.

    Raises:
        DescriptionError: an invalid workload.
        BackendError: the index does not fit into memory, or points are drawn by Zipf.
    """
    kind = index_kind(workload.index)
    if kind.profiled_by_formulas:
        return _by_formulas(workload, slices)
    native = native_workload(workload)

    def profile() -> _native.Profiler:
        return kind.make_profiler(
            native,
            slices,
            # Few records have few lines, which fewer queries touch equally often. A tenth
            # of 5 million records gave throughputs within 0.5 % of 2 million queries.
            queries=max(MIN_QUERIES, min(QUERIES, workload.records // 10)),
            line_sampling=max(1, min(LINE_SAMPLING, workload.records // 50_000)),
            page_sampling=PAGE_SAMPLING,
        )

    what = f"profiling the {kind.title} of {workload.records:,} records"
    return _profilers.get((workload, slices), lambda: with_progress(what, profile, progress))
