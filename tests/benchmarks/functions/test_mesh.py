from pathlib import Path

from pmoss_benchmarks.functions.mesh import TABLES, Settings, cells, measure
from pmoss_benchmarks.study import Run


def test_the_ratio_rises_with_the_hop_and_the_used_shape_is_named() -> None:
    run = Run(Settings(), Path(), Path(), Path())
    rows = [{**cell, **measure(run, cell)} for cell in cells(run.settings)]
    for row in rows:
        ratios = list(row["ratio"].values())
        assert ratios == sorted(ratios) and ratios[0] > 1
    table = TABLES["default"](rows)
    assert sum("(used)" in row[0] for row in table.rows) == 1
    assert sum("(used)" in head for head in table.columns) == 1
