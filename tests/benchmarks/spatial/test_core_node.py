import pytest

from pmoss_benchmarks.spatial.core_node import (
    CoreNodeOptions,
    TaskCell,
    core_node_cells,
    measure_cell,
)


@pytest.mark.heavy
def test_a_full_node_makes_data_elsewhere_unavoidable() -> None:
    options = CoreNodeOptions(
        instances=1,
        confirmed=1,
        budget=300,
        simulated={"queries": 20_000, "line_sampling": 64},
    )
    result = measure_cell(options, TaskCell("full-node-v0"))
    assert result["search_core"] >= result["rule_core"] > 0
    assert result["search_core_node"] >= result["rule_core_node"] > 0
    assert result["gain"] > 0.2 and result["simulated_gain"] > 0.2
    assert 0 < result["away"] < 1


def test_cells_are_tasks_whose_actions_choose_nodes() -> None:
    cells = core_node_cells()
    assert [cell.name for cell in cells] == [cell.task for cell in cells]
    assert all(cell.arguments["actions"] == "core_node" for cell in cells)
    assert TaskCell("full-node-v0", 128).arguments["slices"] == 128
