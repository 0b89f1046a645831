from pmoss_benchmarks.cells import Cell
from pmoss_benchmarks.spatial.headroom import HeadroomOptions, measure_cell


def test_search_is_never_worse_than_what_it_starts_from() -> None:
    options = HeadroomOptions(
        instances=2,
        confirmed=1,
        random_schedules=3,
        budget=200,
        slices=8,
        simulated={"queries": 20_000, "line_sampling": 1},
    )
    result = measure_cell(options, Cell("toy", "btree", "ycsb-a", "closed", "busy_core"))
    assert result["search"] >= result["rule"] >= 0
    assert result["simple"] > 0 and result["simulated_simple"] > 0
    assert result["headroom"] >= result["headroom_over_rules"] - 1e-12
    assert result == measure_cell(options, Cell("toy", "btree", "ycsb-a", "closed", "busy_core"))
