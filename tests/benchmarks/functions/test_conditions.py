"""A surrogate under other conditions, on a machine small enough for a test."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmoss_benchmarks.functions import conditions
from pmoss_benchmarks.functions.conditions import (
    KINDS,
    Settings,
    cells,
    measure,
    prepare,
    scores,
)
from pmoss_benchmarks.spatial.other_counters import Part
from pmoss_benchmarks.study import Run
from pmoss_benchmarks.study.runner import silent
from pmoss_datasets import Recipe, collect
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.types import COUNTER_INDEX
from tests.replays import recheck

SMALL: dict[str, Any] = {
    **{"machine": "toy", "slices": 4, "sizes": (2,), "usual": 2, "episodes": 1, "budget": 20},
    "changes": {"members": 1, "updates": 2},
}


def test_each_kind_has_cells_and_what_they_are_compared_with() -> None:
    every = cells(Settings())
    assert {cell["kind"] for cell in every} == {*KINDS, "rule", "usual"}
    assert [cell["case"] for cell in every if cell["kind"] == "usual"] == ["100"]
    assert {cell["kind"] for cell in cells(Settings(("stale",)))} == {"stale", "rule", "usual"}
    with pytest.raises(UnknownNameError, match="stael"):
        Settings(("stael",))
    with pytest.raises(DescriptionError, match="usual = 7"):
        Settings(usual=7)


def test_a_part_of_a_dataset_has_fewer_episodes_and_counters(tmp_path: Path) -> None:
    env = {"machine": "toy", "slices": 4}
    recipe = Recipe(env=env, episodes=4, tier="random", reference_episodes=0)
    whole = collect(recipe, tmp_path / "data")
    part = Part(whole, 2, ["cycles"])
    assert len(part) == 2 and part.checksum not in (whole.checksum, Part(whole, 2).checksum)
    assert np.array_equal(part.column("actions"), whole.column("actions")[[0, 2]])
    kept, all_ = part.column("final_counters"), whole.column("final_counters")[[0, 2]]
    lost = COUNTER_INDEX["cycles"]
    assert not kept[..., lost].any() and all_[..., lost].all()
    assert np.array_equal(np.delete(kept, lost, -1), np.delete(all_, lost, -1))
    with pytest.raises(DescriptionError, match="the dataset has 4"):
        Part(whole, 5)


def test_rows_replay_and_are_compared_with_the_usual_surrogate(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    settings = Settings(("fresh", "stale", "vendors"), **SMALL)
    run = Run(settings, tmp_path, tmp_path, tmp_path)
    prepare(run, silent)
    chosen = [cell for cell in cells(settings) if cell["case"] not in ("3", "both", "Arm")]
    rows = [{**cell, **measure(run, cell)} for cell in chosen]
    assert [row for row in rows if recheck(conditions, run, row)] == []
    altered = {**rows[-1], "throughput": [1.0]}
    assert "throughput[0]: stored 1.0" in recheck(conditions, run, altered)[0]
    of_all = {row["kind"]: row for row in scores(rows)}
    usual = of_all["usual"]["over_usual"]
    assert usual is not None and usual.value == 0.0 and usual.low is None
    assert of_all["fresh"]["best_rule"] in ("best-fit", "lpt-capacity", "lpt")
