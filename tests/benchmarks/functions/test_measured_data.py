"""Data measured on a host: learning from them and re-scheduling, with no figure asserted."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.functions.measured_data import (
    RULES,
    Settings,
    Work,
    names_of,
    prepare,
)
from pmoss_benchmarks.study.function import Run
from pmoss_datasets import Recipe, collect
from pmoss_datasets.suite import SHIPPED
from pmoss_env.errors import DatasetError
from pmoss_env.machines import load_machine


def test_modelled_data_are_refused(tmp_path: Path) -> None:
    run = Run(Settings(SHIPPED[0]), tmp_path, tmp_path, tmp_path)
    with pytest.raises(DatasetError, match="was not measured"):
        Work(run)


def test_from_data_of_this_host_to_a_row(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if load_machine("host").workers.size < 2:
        pytest.skip("placing needs two workers")
    env = {
        "machine": "host",
        "backend": "hardware",
        "slices": 4,
        "workload": "lookups",
        "load": "closed:64",
        "backend_options": {"records": 20_000, "seconds": 0.03, "warmup_seconds": 0.01},
    }
    recipe = Recipe(env=env, tier="measured", episodes=12, reference_episodes=0)
    data = collect(recipe, tmp_path / "data")
    changes = {"updates": 2, "members": 1, "width": 8, "features": 4, "demands": 2}
    settings = Settings(str(data.path), modelled=4, episodes=1, changes=changes)
    run = Run(settings, tmp_path, tmp_path, tmp_path)
    row = Work(run)({"block": 0})
    assert {*row["played"]} == {*RULES, *names_of(12)}
    measured = np.array([[*of_agent.values()] for of_agent in row["played"].values()])
    # On a busy host a worker may get no time in so short a window.
    assert np.isfinite(measured).all() and (measured >= 0).all() and (measured > 0).any()
    assert json.loads(json.dumps(row)) == row

    def made() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.safetensors")}

    # Other settings make other checkpoints; the same ones are read again.
    before = made()
    assert len(before) == len(names_of(12))
    prepare(run)
    assert made() == before
    prepare(replace(run, settings=replace(settings, seed=1)))
    assert len(made()) == 2 * len(before)
