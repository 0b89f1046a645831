from pathlib import Path

from pmoss_benchmarks.functions import scan_conditions
from pmoss_benchmarks.functions.scan_conditions import Settings, causes, measure
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import Results
from tests.replays import recheck

RESULTS = Results(Path(__file__).resolve().parents[3])
RUN = Run(Settings(), Path(), Path(), Path())


def test_products_and_one_distance_bring_the_models_inside() -> None:
    usual, products, near = (
        measure(RUN, {"case": case})["got"] for case in ("as judged", "products", "one distance")
    )
    for name in ("R2 of the CPU model", "R2 of the GRU model"):
        assert products[name] > 0.96 > usual[name]
    assert near["R2 of the CPU model"] > 0.96, "at one distance the time per byte is one"
    (scans,) = RESULTS["access-path"].rows
    rows = RESULTS["scan-conditions"].rows
    table = causes(rows, scans["statements"], *usual)
    assert table.rows[0][0] == "as judged" and len(table.rows) == 6
    (row,) = (row for row in rows if row["case"] == "products")
    assert recheck(scan_conditions, RUN, dict(row)) == []
    assert recheck(scan_conditions, RUN, {**row, "scans": 1}) != []
