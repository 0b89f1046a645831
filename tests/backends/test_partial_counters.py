"""What the hardware backend says of counters that ran for a part of the queries only."""

from typing import Any

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.backends.native_counts import per_query_of
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.types import COUNTERS

SLICES = 4


@pytest.mark.parametrize(
    ("totals", "counted", "queries", "expected"),
    [
        ([30.0, 8.0], [10.0, 4.0], [1.0, 2.0], [3.0, 2.0]),
        ([30.0, 0.0], [10.0, 0.0], [1.0, 0.0], [3.0, 0.0]),  # without queries no count is needed
        # A slice that was never counted gets the mean of the others.
        ([30.0, 10.0, 0.0], [10.0, 10.0, 0.0], [4.0, 4.0, 2.0], [3.0, 1.0, 2.0]),
    ],
)
def test_counts_are_divided_by_the_queries_behind_them(totals, counted, queries, expected):
    values, reason = per_query_of(np.array(totals), np.array(counted), np.array(queries))
    assert (values.tolist(), reason) == (expected, "")


def test_half_of_the_queries_must_have_been_counted() -> None:
    _, reason = per_query_of(np.array([30.0, 0]), np.array([10.0, 0]), np.array([1.0, 3.0]))
    assert reason == "counted for 25% of the queries only"


def test_the_part_of_the_time_that_an_event_ran_reaches_the_snapshot() -> None:
    """Where events take turns; this host may have too few of them for that."""
    options: dict[str, Any] = {"records": 20_000, "seconds": 0.15, "warmup_seconds": 0.05}
    options |= {"own_process": False, "window": 0}
    backend: Any = make_backend(
        "hardware", machine="host", workload="ycsb-a", slices=SLICES, **options
    )
    backend.window = 100
    schedule = make_baseline("spread")(Context(backend.machine, SLICES))
    runner = backend.loaded_runner()

    class Multiplexed:
        def __getattr__(self, name: str) -> Any:
            return getattr(runner, name)

        def measure(self, **options: Any) -> dict[str, Any]:
            raw: dict[str, Any] = runner.measure(**options)
            return {**raw, "running_ratio": np.full_like(raw["running_ratio"], 0.625)}

    backend._runner = Multiplexed()
    snapshot = backend.measure(schedule, seed=1)
    backend.close()
    counted = snapshot.counters_available & [counter.source != "runtime" for counter in COUNTERS]
    assert counted.any()
    assert (snapshot.running_ratio[counted] == 0.625).all()
