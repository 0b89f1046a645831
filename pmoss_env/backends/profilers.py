"""Profilers of workloads for the analytic model, by kind of index."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.backends.process_lock import ProcessLock
from pmoss_env.backends.reporting import reported
from pmoss_env.indexes import index_kind
from pmoss_env.workloads import Workload

#: What a profiler that runs the index records at most, as the simulated backend does by default.
QUERIES, LINE_SAMPLING, PAGE_SAMPLING = 2_000_000, 64, 8
#: What it records at least.
FEWEST_QUERIES = 100_000
#: Profilers that have run an index which a process keeps; a few megabytes each.
KEPT = 8

_kept: OrderedDict[tuple[Workload, int], _native.Profiler] = OrderedDict()
_lock = ProcessLock()


@lru_cache(maxsize=KEPT)
def _by_formulas(workload: Workload, slices: int) -> _native.Profiler:
    return index_kind(workload.index).make_profiler(native_workload(workload), slices)


def make_profiler(
    workload: Workload, slices: int, progress: Callable[[str, float], None] | None
) -> _native.Profiler:
    """The profiler of a workload.

    One that runs the index does so once per process, workload and number of slices.

    Args:
        workload: what the index gets.
        slices: number of key ranges or cells.
        progress: as of backends.reporting.reported().

    Raises:
        DescriptionError: an impossible workload.
        BackendError: the index cannot be profiled, because it does not fit into memory or, for
            points, because records are drawn by Zipf.
    """
    kind = index_kind(workload.index)
    if kind.profiled_by_formulas:
        return _by_formulas(workload, slices)
    native = native_workload(workload)
    with _lock:
        key = (workload, slices)
        if key not in _kept:
            _kept[key] = reported(
                f"profiling the {kind.title} of {workload.records:,} records",
                lambda: kind.make_profiler(
                    native,
                    slices,
                    # Few records have few lines, which fewer queries touch as often. A tenth of
                    # 5 million gave throughputs within 0.5 % of 2 million queries (median).
                    queries=max(FEWEST_QUERIES, min(QUERIES, workload.records // 10)),
                    line_sampling=max(1, min(LINE_SAMPLING, workload.records // 50_000)),
                    page_sampling=PAGE_SAMPLING,
                ),
                progress,
            )
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
        _kept.move_to_end(key)
        return _kept[key]
