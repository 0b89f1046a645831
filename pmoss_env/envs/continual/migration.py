"""The cost of moving a slice of a running index, in the analytic model.

A moved slice changes its core at once. Its data follow, one copy at a time. Until a slice's data
have arrived it is served remotely. A copy is traffic of the source's memory, the target's memory
and the links between them. None of a moved slice's lines are cached at first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmoss_env.backends.native_forms import record_shares
from pmoss_env.checks import check_number
from pmoss_env.types import Float64Array
from pmoss_env.workloads import Workload


@dataclass(frozen=True)
class Migration:
    """The size and speed of copies.

    Attributes:
        record_bytes: bytes that move with a record; 1,000 as in YCSB.
        max_gb_per_s: limit of the copying thread; 0: no limit.
    """

    record_bytes: float = 1000.0
    max_gb_per_s: float = 0.0

    def __post_init__(self) -> None:
        check_number("record_bytes", self.record_bytes, 1, 2**30)
        check_number("max_gb_per_s", self.max_gb_per_s, 0.0)

    def slice_bytes(self, workload: Workload, slices: int) -> Float64Array:
        """(slices,) float64, bytes that move with each slice."""
        shares = np.array(record_shares(workload, slices))
        return shares * (workload.records * self.record_bytes)
