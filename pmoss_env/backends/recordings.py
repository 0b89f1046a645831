"""Recordings of memory accesses, kept for later measurements."""

from __future__ import annotations

from dataclasses import dataclass

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.backends.process_lock import Recent
from pmoss_env.checks import check_whole
from pmoss_env.indexes import holds_points, index_kind
from pmoss_env.workloads import Workload

#: Number of kept recordings: that of an episode and that of a search.
KEPT = 2


@dataclass(frozen=True)
class RecordingOptions:
    """The content of a recording.

    Attributes:
        line_sampling: one cache line in this many is recorded.

    Raises:
        DescriptionError: an impossible value.
    """

    workload: Workload
    slices: int
    queries: int
    line_sampling: int
    page_sampling: int

    def __post_init__(self) -> None:
        for name in ("queries", "line_sampling", "page_sampling"):
            check_whole(name, getattr(self, name), 1)

    def recorded_seed(self, workload_seed: int) -> int:
        """The seed of the instance whose recording serves an instance.

        Points are the same in all instances. Without hot regions or hot points the queries are
        statistically the same, too: then one recording serves all instances.
        """
        alike = holds_points(self.workload.index) and self.workload.distribution == "uniform"
        return 0 if alike else workload_seed

    def record(self, workload_seed: int) -> _native.Trace:
        """Builds and records the index of an instance; ValueError if it does not fit."""
        return index_kind(self.workload.index).record(
            native_workload(self.workload, workload_seed),
            self.slices,
            queries=self.queries,
            line_sampling=self.line_sampling,
            page_sampling=self.page_sampling,
        )


#: Recordings by their options and seed. They are independent of the machine.
Recordings = Recent[tuple[RecordingOptions, int], _native.Trace]
#: The recordings of indexes on points, shared by backends without recordings of their own.
POINT_RECORDINGS = Recordings(KEPT)
