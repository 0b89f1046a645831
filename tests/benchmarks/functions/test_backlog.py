from pathlib import Path

import pytest

from pmoss_benchmarks.functions.backlog import (
    SCHEDULES,
    Settings,
    measure,
)
from pmoss_benchmarks.study import Run


def test_a_cell_holds_every_schedule_under_both_counts() -> None:
    settings = Settings(
        instances=1,
        budgets=(200,),
        slices=16,
        confirmed=("ycsb-a",),
        simulated={"queries": 4_000, "line_sampling": 16, "records": 100_000},
    )
    run = Run(settings, Path(), Path(), Path())
    rows = measure(run, {"machine": "toy", "workload": "ycsb-a"})["rows"]
    assert set(SCHEDULES) <= set(rows)
    assert {"search-200-served", "search-200-mix", "search-200-closed"} <= set(rows)
    for row in rows.values():
        assert 0 < row["mix"] <= 1.0001 * row["served"]
        assert 0 < row["simulated_mix"] <= 1.0001 * row["simulated_served"]
    everywhere = rows["shared-everything"]
    assert everywhere["mix"] == pytest.approx(everywhere["served"])
    assert everywhere["starved"] == 0
    # Each search is best, or level, at what it looks at.
    for name in ("served", "mix", "closed"):
        best = max(rows[f"search-200-{other}"][name] for other in ("served", "mix", "closed"))
        assert rows[f"search-200-{name}"][name] >= 0.97 * best
