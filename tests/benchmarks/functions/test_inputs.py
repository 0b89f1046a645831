"""What the agent that ships reads, and where its model is wrong."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from pmoss_benchmarks.functions import inputs
from pmoss_benchmarks.functions.inputs import PLAN, WHOLE, Settings, Work, cells, taken_of
from pmoss_benchmarks.study.function import Run
from pmoss_env.machines import load_machine
from pmoss_env.types import CoTenant, Instance
from tests.replays import recheck


def test_attribution_stands_beside_ablation_and_errors_beside_the_load(tmp_path: Path) -> None:
    quick = {"looks": 0, "rounds": 1, "tries": 0}
    settings = Settings(
        (("toy", "ycsb-a", "all"),), episodes=1, rules=("lpt",), changes=quick, steps=1, budget=50
    )
    run = Run(settings, tmp_path, tmp_path, tmp_path)
    (cell,) = cells(settings)
    row = {**cell, **Work(run)(cell)}
    assert {PLAN, WHOLE, "lpt", "core", "cycles", "topology"} <= set(row["scores"])
    assert set(row["errors"]) == {PLAN, "lpt"} == {point[0] for point in row["nodes"]}
    shares = inputs.shares_of([row])
    assert sum(shares[level] for level in row["attribution"]) == pytest.approx(1)
    for name in inputs.TABLES:
        assert inputs.TABLES[name]([row]).rows
    for name in inputs.PLOTS:
        assert inputs.PLOTS[name]([row]).axes
    assert inputs.summarise({}, [row])["score"] == row["scores"][PLAN][0]
    assert recheck(inputs, run, row) == []


def test_a_memory_is_taken_by_streams_and_by_sweeps_of_its_caches() -> None:
    machine = load_machine("toy")
    tenants = (CoTenant("memory_stream", 1, 0.5), CoTenant("cache_thrash", 0, 0.25))
    taken = taken_of(machine, Instance(0, tenants))
    node = machine.node_of_core[machine.llc_of_core == 0][0]
    expected = np.zeros(machine.nodes)
    expected[1], expected[node] = 0.5, expected[node] + 0.25
    assert taken.tolist() == expected.tolist()
