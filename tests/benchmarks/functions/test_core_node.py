from pathlib import Path

import pytest

from pmoss_benchmarks.functions.core_node import Settings, cells, measure
from pmoss_benchmarks.study.function import Run
from pmoss_env.registration import CORE_NODE


@pytest.mark.heavy
def test_a_full_node_makes_data_elsewhere_unavoidable() -> None:
    settings = Settings(
        instances=1,
        confirmed=1,
        budget=300,
        simulated={"queries": 20_000, "line_sampling": 64},
    )
    row = measure(Run(settings, Path(), Path(), Path()), {"task": "full-node-v0"})
    assert row["search_core"] >= row["rule_core"] > 0
    assert row["search_core_node"] >= row["rule_core_node"] > 0
    assert row["gain"] > 0.2 and row["simulated_gain"] > 0.2
    assert 0 < row["away"] < 1


def test_cells_are_tasks_whose_actions_choose_nodes() -> None:
    names = [cell["task"] for cell in cells(Settings())]
    assert names and all(CORE_NODE[f"pmoss/{name}"]["actions"] == "core_node" for name in names)
