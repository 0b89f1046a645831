"""Datasets to learn from together."""

import pytest

from pmoss_datasets import Recipe, collect, load
from pmoss_datasets.several import Several
from pmoss_env.errors import DatasetError, DescriptionError


def test_datasets_of_other_machines_and_sizes_are_held_together(tmp_path):
    small = Recipe(env={"machine": "random:1", "slices": 4}, episodes=2, reference_episodes=0)
    parts = [load("pmoss/toy-btree-ycsb-a-busy-core/mixed-v0"), collect(small, tmp_path / "small")]
    both = Several(parts)
    assert both.parts == tuple(parts)
    assert both.id == f"{parts[0].id} + {parts[1].id}"
    assert both.path == parts[0].path
    assert both.checksum != Several(parts[::-1]).checksum


def test_nothing_and_the_same_twice_are_refused():
    with pytest.raises(DescriptionError, match="no datasets"):
        Several([])
    dataset = load("pmoss/toy-btree-ycsb-a-busy-core/mixed-v0")
    with pytest.raises(DatasetError, match="the same episodes"):
        Several([dataset, dataset])
