"""What knowing about co-tenants is worth here: that it is measured, not how much it is."""

from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.functions.co_tenants import Settings, cells, measure
from pmoss_benchmarks.study import Run
from pmoss_env.errors import DescriptionError, UnknownNameError


def test_both_schedules_are_measured_in_every_round() -> None:
    settings = Settings(
        families=("busy_core",),
        loads=("closed",),
        rounds=2,
        slices=8,
        options={"records": 5_000, "seconds": 0.4, "warmup_seconds": 0.05},
    )
    (cell,) = cells(settings)
    row = measure(Run(settings, Path(), Path(), Path()), cell)
    ratios = np.array(row["capacity_mq_per_s"]) / np.array(row["lpt_mq_per_s"])
    assert ratios.size == 2 and row["ratio"] == pytest.approx(ratios.mean())
    assert row["interval"][0] <= row["ratio"] <= row["interval"][1]


def test_what_cannot_be_measured_is_named() -> None:
    with pytest.raises(UnknownNameError, match="nonsense"):
        Settings(families=("nonsense",))
    with pytest.raises(DescriptionError, match="rounds = 1"):
        Settings(rounds=1)
