from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.functions.migration import Settings, exchanges, measure
from pmoss_benchmarks.spatial.combinations import combinations
from pmoss_benchmarks.study import Run
from pmoss_env.errors import DescriptionError

(TOY,) = combinations(["toy"], ["lookups"], ["closed"])


def run(**settings: float) -> Run:
    return Run(Settings(**settings), Path(), Path(), Path())


def trial(model_ms: float, simulated_ms: float, model: float, simulated: float) -> dict[str, float]:
    return {
        "model_ms": model_ms,
        "simulated_ms": simulated_ms,
        "model_share": model,
        "simulated_share": simulated,
    }


def test_slices_of_different_nodes_change_places() -> None:
    cores = np.arange(8, dtype=np.int32)
    nodes = cores // 2
    moves = exchanges(cores, np.arange(8.0), nodes, 2, np.random.default_rng(0))
    core_of = dict(moves)
    assert len(core_of) == 4
    for slice_, core in moves:
        assert core_of[core] == slice_  # slice i was on core i
        assert nodes[slice_] != nodes[core]
    with pytest.raises(DescriptionError, match="pairs = 5"):
        exchanges(cores, np.arange(8.0), nodes, 5, np.random.default_rng(0))


def test_a_cell_tells_both_times_and_repeats() -> None:
    few = run(trials=2, pairs=1, record_bytes=1.0, queries=150_000, slices=8)
    row = measure(few, TOY)
    assert row == measure(few, TOY)
    for trial in row["trials"]:
        assert 0.3 < trial["model_ms"] / trial["simulated_ms"] < 3
        assert 0 < trial["simulated_share"] < 2


def test_data_that_never_arrive_are_told() -> None:
    with pytest.raises(DescriptionError, match="no data are there"):
        measure(run(trials=1, queries=20_000, slices=8), TOY)
    with pytest.raises(DescriptionError, match="trials = 0"):
        Settings(trials=0)
