"""What moving a slice costs while its index runs, in the analytic model.

A moved slice changes its core at once. Its data follow: one copy after the other. Until a slice's
data have arrived it is served from afar. A copy is traffic of the source's memory, the target's
memory and the links between. Where a slice goes, none of its lines are cached at first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmoss_env.backends.native_forms import record_shares
from pmoss_env.envs.continual.drift import check_range
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Float64Array
from pmoss_env.workloads import Workload


@dataclass(frozen=True)
class Migration:
    """What moves with a slice, and how fast at most.

    Attributes:
        record_bytes: of one record with all that moves with it; 1,000 as in YCSB.
        most_gb_per_s: a limit that the copying thread keeps; 0: none.
    """

    record_bytes: float = 1000.0
    most_gb_per_s: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.record_bytes <= 2**30:
            raise DescriptionError(
                f"record_bytes = {self.record_bytes!r}: must lie between 1 and {2**30}"
            )
        check_range("most_gb_per_s", (0.0, self.most_gb_per_s))

    def slice_bytes(self, workload: Workload, slices: int) -> Float64Array:
        """(slices,) float64, bytes that move with each slice."""
        shares = np.array(record_shares(workload, slices))
        return shares * (workload.records * self.record_bytes)
