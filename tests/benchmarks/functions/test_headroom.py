from pathlib import Path

from pmoss_benchmarks.functions.headroom import Settings, cells, measure
from pmoss_benchmarks.study.function import Run


def test_search_is_never_worse_than_what_it_starts_from() -> None:
    settings = Settings(
        machines=("toy",),
        workloads=("ycsb-a",),
        interference=("busy_core",),
        instances=2,
        confirmed=1,
        random_schedules=3,
        budget=200,
        slices=8,
        simulated={"queries": 20_000, "line_sampling": 1},
    )
    run = Run(settings, Path(), Path(), Path())
    (cell,) = cells(settings)
    row = measure(run, cell)
    assert row["search"] >= row["rule"] >= 0
    assert row["simple"] > 0 and row["simulated_simple"] > 0
    assert row["headroom"] >= row["headroom_over_rules"] - 1e-12
    assert row == measure(run, cell)
