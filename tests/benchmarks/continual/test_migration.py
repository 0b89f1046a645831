import numpy as np
import pytest

from pmoss_benchmarks.cells import Cell
from pmoss_benchmarks.continual.migration import MigrationOptions, card, exchanges, measure_cell
from pmoss_env.errors import DescriptionError

TOY = Cell("toy", "btree", "lookups")


def trial(model_ms: float, simulated_ms: float, model: float, simulated: float) -> dict[str, float]:
    return {
        "model_ms": model_ms,
        "simulated_ms": simulated_ms,
        "model_share": model,
        "simulated_share": simulated,
    }


def test_card_of_known_numbers() -> None:
    found = card([trial(9.0, 10.0, 0.8, 0.8), trial(11.0, 10.0, 0.9, 0.9)])
    assert found["time_error"]["median"] == pytest.approx(0.0)
    assert found["time_error"]["size"] == pytest.approx(0.1)
    assert found["served_error"] == {"median": 0.0, "size": 0.0, "p95": 0.0}
    assert found["model_dip"] == found["simulated_dip"] == pytest.approx(0.15)
    assert not card([trial(12.0, 10.0, 0.8, 0.8)])["within"]
    assert card([trial(10.5, 10.0, 0.8, 0.8)])["within"]


def test_slices_of_different_nodes_change_places() -> None:
    cores = np.arange(8, dtype=np.int32)
    nodes = cores // 2
    moves = exchanges(cores, np.arange(8.0), nodes, 2, np.random.default_rng(0))
    there = dict(moves)
    assert len(there) == 4
    for slice_, core in moves:
        assert there[core] == slice_  # slice i was on core i
        assert nodes[slice_] != nodes[core]
    with pytest.raises(DescriptionError, match="pairs = 5"):
        exchanges(cores, np.arange(8.0), nodes, 5, np.random.default_rng(0))


def test_a_cell_tells_both_times_and_repeats() -> None:
    options = MigrationOptions(trials=2, pairs=1, record_bytes=1.0, queries=150_000, slices=8)
    found = measure_cell(options, TOY)
    assert found == measure_cell(options, TOY)
    for one in found["trials"]:
        assert 0.3 < one["model_ms"] / one["simulated_ms"] < 3
        assert 0 < one["simulated_share"] < 2


def test_data_that_never_arrive_are_told() -> None:
    options = MigrationOptions(trials=1, queries=20_000, slices=8)
    with pytest.raises(DescriptionError, match="no data are there"):
        measure_cell(options, TOY)
    with pytest.raises(DescriptionError, match="trials = 0"):
        MigrationOptions(trials=0)
