"""Stored actions give the stored episodes again, in every domain."""

from dataclasses import replace

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect, write_dataset
from pmoss_datasets.replaying import replay

ENVS = {
    "spatial": {"machine": "toy", "slices": 6, "interference": "busy_core", "noise": 1.0},
    "threads": {"requests": 50_000},
    "access-path": {"scans": 4, "noise": 1.0},
    "continual": {"machine": "toy", "slices": 6, "epochs": 3, "noise": 1.0},
}


@pytest.mark.parametrize("domain", ENVS)
def test_what_was_collected_comes_out_again(domain, tmp_path):
    recipe = Recipe(domain=domain, env=ENVS[domain], episodes=4, reference_episodes=0)
    dataset = collect(recipe, tmp_path / "data")
    progress = []
    assert list(replay(dataset, lambda done, total: progress.append((done, total)))) == []
    assert progress == [(done, 4) for done in range(1, 5)]
    episodes = list(dataset)
    episodes[2] = replace(episodes[2], seed=episodes[2].seed + 1)
    other = write_dataset(tmp_path / "other", episodes, dataset.metadata)
    problems = list(replay(other))
    assert len(problems) == 1 and "episode 2: " in problems[0]
    assert not np.array_equal(dataset.column("seed"), other.column("seed"))
