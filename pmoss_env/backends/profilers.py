"""Profilers of workloads for the analytic model, by kind of index."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.backends.reporting import reported
from pmoss_env.workloads import Workload

#: What an R-tree's profiler records at most, as the simulated backend does by default.
QUERIES, LINE_SAMPLING, PAGE_SAMPLING = 2_000_000, 64, 8
#: What it records at least.
FEWEST_QUERIES = 100_000
#: Profilers of R-trees that a process keeps; a few megabytes each.
KEPT = 8

_rtrees: OrderedDict[tuple[Workload, int], _native.RTreeProfiler] = OrderedDict()
_lock = threading.Lock()


class Profiler(Protocol):
    """Knows a workload's instances."""

    def profiles(self, seed: int) -> _native.SliceProfiles:
        """The profiles of the instance ``seed``, in milliseconds."""


def make_profiler(
    workload: Workload, slices: int, progress: Callable[[str, float], None] | None
) -> Profiler:
    """The profiler of a workload.

    That of an R-tree runs the tree once per process, workload and number of slices: its points are
    the same in all instances.

    Args:
        workload: what the index gets.
        slices: number of key ranges or cells.
        progress: as of backends.reporting.reported().

    Raises:
        DescriptionError: an impossible workload.
        BackendError: the R-tree cannot be profiled, because it does not fit into memory or its
            records are drawn by Zipf.
    """
    native = native_workload(workload)
    if workload.index == "btree":
        return _native.BTreeProfiler(native, slices)
    with _lock:
        key = (workload, slices)
        if key not in _rtrees:
            _rtrees[key] = reported(
                f"profiling the R-tree of {workload.records:,} records",
                lambda: _native.RTreeProfiler(
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
            while len(_rtrees) > KEPT:
                _rtrees.popitem(last=False)
        _rtrees.move_to_end(key)
        return _rtrees[key]
