"""What is written is what is read."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest

from pmoss_datasets import FIELDS, Behaviour, Recipe, collect, open_dataset, write_dataset
from pmoss_datasets import storage as storage_module
from pmoss_datasets.card import card
from pmoss_env.errors import DatasetError, UnknownNameError
from tests.datasets.damaging import rewrite


def test_unknown_fields_are_named(original):
    for name in ("bogus", "counterfactual"):
        with pytest.raises(UnknownNameError, match=f"field '{name}'"):
            original.column(name)


def test_round_trip(original):
    again = open_dataset(original.path)
    again.verify()
    assert again.metadata == original.metadata
    assert len(again) == 5
    for mine, theirs in zip(again, original, strict=True):
        for field in original.metadata.fields:
            np.testing.assert_array_equal(
                getattr(mine, field.name), getattr(theirs, field.name), err_msg=field.name
            )
    assert isinstance(again[0].seed, int)
    assert isinstance(again[-1].final_throughput, float)
    with pytest.raises(IndexError):
        again[5]


def test_every_field_has_a_unit_and_a_meaning(original):
    assert all(field.unit and field.meaning for field in FIELDS)
    with h5py.File(original.path / "data.hdf5") as file:
        stored = {field.name for field in FIELDS if not field.optional}
        assert {name for name in file if name != "codes"} == stored


def test_an_episode_of_256_slices_takes_at_most_40_kilobytes(tmp_path):
    recipe = Recipe(
        env={"interference": "busy_core"},
        episodes=4,
        tier="any",
        behaviours=(Behaviour("lpt"), Behaviour("random")),
        reference_episodes=0,
    )
    dataset = collect(recipe, tmp_path / "dataset")
    size = sum(path.stat().st_size for path in dataset.path.iterdir())
    assert size / len(dataset) <= 40_000


def store_counters(folder, names):
    """Makes the dataset one of a table that had these counters."""
    metadata = json.loads((folder / "metadata.json").read_text())
    today = metadata["counter_names"]
    places = [today.index(name) for name in names]
    with h5py.File(folder / "data.hdf5", "a") as file:
        for name in [field.name for field in FIELDS if "H" in field.axes]:
            array = np.ascontiguousarray(file[name][()][..., places])
            del file[name], file[f"codes/{name}"]
            file[name] = array
            file[f"codes/{name}"] = storage_module._episode_codes(array)
            metadata["checksums"][name] = storage_module.checksum(array)
    rewrite(folder, lambda d: d.update(counter_names=names, checksums=metadata["checksums"]))


def test_a_dataset_of_another_table_of_counters_is_read_by_name(original, folder, tmp_path):
    today = list(original.metadata.counter_names)
    stored = ["queries", "task_clock_us", "cycles", "elapsed_us", "cycles_mem_any"]
    store_counters(folder, stored)
    old = open_dataset(folder)
    assert old.stored.counter_names == tuple(stored)
    assert old.metadata.counter_names == original.metadata.counter_names
    old.verify()
    kept = [today.index(name) for name in stored]
    lacking = sorted(set(range(len(today))) - set(kept))
    for episode, other in zip(old, original, strict=True):
        for when in ("incumbent", "final"):
            counters, ratio = (
                getattr(episode, f"{when}_{n}") for n in ("counters", "running_ratio")
            )
            assert counters.shape == getattr(other, f"{when}_counters").shape
            assert np.array_equal(counters[:, kept], getattr(other, f"{when}_counters")[:, kept])
            assert not counters[:, lacking].any()
            assert not ratio[lacking].any()
            assert np.array_equal(ratio[kept], getattr(other, f"{when}_running_ratio")[kept])
        snapshot = episode.snapshot("incumbent", old.metadata)
        assert snapshot.counters_available.tolist() == [name in stored for name in today]
    # What is written from it has today's columns.
    again = write_dataset(tmp_path / "again", list(old), old.metadata)
    assert again.stored.counter_names == tuple(today)
    assert np.array_equal(again.column("final_counters"), old.column("final_counters"))
    assert "l1d_misses" in card(old).rpartition("could not be counted")[2]


def test_a_dataset_without_a_scale_gives_no_scores(original, tmp_path):
    same = {"mean": 5.0, "std": 0.0, "n": 2}
    for scores, text in (
        ({}, "no reference scores"),
        ({"random": same, "search": same, "incumbent": same}, "scale"),
    ):
        metadata = replace(original.metadata, reference_scores=scores)
        dataset = write_dataset(tmp_path / "d", list(original), metadata, overwrite=True)
        with pytest.raises(DatasetError, match=text):
            dataset.normalized_score(5.0)
    with pytest.raises(UnknownNameError, match="reward"):
        original.normalized_score(5.0, "bogus")
