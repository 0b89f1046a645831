"""What knowing about co-tenants is worth here: that it is measured, not how much it is."""

import numpy as np
import pytest

from pmoss_benchmarks.spatial.co_tenants import measure_gain


def test_both_schedules_are_measured_in_every_round() -> None:
    done: list[int] = []
    gain = measure_gain(
        "busy_core",
        rounds=2,
        slices=8,
        options={"records": 5_000, "seconds": 0.4, "warmup_seconds": 0.05},
        on_round=done.append,
    )
    assert done == [1, 2]
    ratios = np.array(gain.capacity_mq_per_s) / np.array(gain.lpt_mq_per_s)
    assert gain.ratio == pytest.approx(ratios.mean())
    assert gain.interval is not None
    assert gain.interval[0] <= gain.ratio <= gain.interval[1]
