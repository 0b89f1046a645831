"""What is written is what is read: a dataset is written whole or not at all."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from pmoss_datasets import FIELDS, Behaviour, Recipe, collect, open_dataset, write_dataset
from pmoss_datasets import folder as folder_module
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


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("actions", [0, 1, 1, 1, 1, 1, 1, 1], r"episode 1, entry 0: actions = 0: is no tile"),
        ("actions", [99, 1, 1, 1, 1, 1, 1, 1], r"episode 1, entry 0: actions = 99"),
        ("order", [0, 0, 2, 3, 4, 5, 6, 7], r"episode 1, entry 1: order = 0: must name each"),
        ("throughput", [np.inf] * 8, r"episode 1, entry 0: throughput = inf"),
        ("throughput", [1.0] * 7 + [-1.0], r"episode 1, entry 7: throughput = -1"),
        ("incumbent_cores", [0] * 8, r"episode 1, entry 0: incumbent_cores = 0: is no worker"),
        ("final_nodes", [7] * 8, r"episode 1, entry 0: final_nodes = 7: is no node"),
        ("policy", 99, r"episode 1: policy = 99"),
        ("episode", 0, r"episode 1: episode = 0: is the number of an earlier episode"),
        ("propensity", [2.0] * 8, r"episode 1, entry 0: propensity = 2.0: must lie in"),
        ("incumbent_counters", [[np.nan] * 21] * 8, r"episode 1, entry 0, counter 0: incumbent_"),
        ("final_latency", [np.nan, 1.0], r"episode 1, entry 0: final_latency = nan: must be fin"),
        ("actions", [1, 1], r"actions: episodes of different shapes"),
        ("actions", [0.5] * 8, r"episode 1: actions: float64 does not fit int16"),
        ("order", [70000] * 8, r"episode 1: order: a value does not fit int16"),
        ("neighbour_strength", [1.0], r"episode 1, entry 0: neighbour_strength = 1.0: must lie in"),
        ("neighbour_target", [8], r"episode 1, entry 0: neighbour_target = 8: does not exist"),
        ("neighbour_family", [9], r"episode 1, entry 0: neighbour_family = 9: is no family"),
    ],
)
def test_illegal_values_are_never_written(original, tmp_path, name, value, text):
    episodes = list(original)
    old = np.asarray(getattr(episodes[1], name))
    new = np.array(value)
    if new.dtype.kind == old.dtype.kind and abs(new).max() < 2**15:
        new = new.astype(old.dtype)
    episodes[1] = replace(episodes[1], **{name: new})
    target = tmp_path / "dataset"
    with pytest.raises(DatasetError, match=re.escape(str(target)) + ".*" + text):
        write_dataset(target, episodes, original.metadata)
    assert list(tmp_path.iterdir()) == []


def test_wrong_metadata_is_never_written(original, tmp_path):
    target = tmp_path / "dataset"
    for change, text in (
        ({"id": "pmoss/toy"}, "id 'pmoss/toy'"),
        ({"provenance": {"host": object()}}, "plain JSON"),
        ({"provenance": {"x": float("nan")}}, "plain JSON"),
        ({"counter_names": ("cycles",)}, "counter_names"),
    ):
        with pytest.raises(DatasetError, match=text):
            write_dataset(target, list(original), replace(original.metadata, **change))
    with pytest.raises(DatasetError, match="no episodes"):
        write_dataset(target, [], original.metadata)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "when"),
    [(storage_module, "_write_array"), (folder_module, "_sync"), (folder_module, "_replace")],
)
def test_a_failure_while_writing_leaves_nothing_and_keeps_the_old(
    original, folder, tmp_path, monkeypatch, module, when
):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(module, when, fail)
    with pytest.raises(DatasetError, match="dataset: cannot be written: disk full"):
        write_dataset(folder, list(original), original.metadata, overwrite=True)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]
    open_dataset(folder).verify()


@pytest.mark.parametrize("after", [1, 2])
def test_an_interrupt_right_after_a_rename_strands_nothing(
    original, folder, tmp_path, monkeypatch, after
):
    rename, calls = Path.rename, []

    def cut(self, target):
        result = rename(self, target)
        calls.append(self)
        if len(calls) == after:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(Path, "rename", cut)
    with pytest.raises(KeyboardInterrupt):
        write_dataset(folder, list(original)[:3], original.metadata, overwrite=True)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]
    stored = open_dataset(folder)
    stored.verify()
    assert len(stored) == (5 if after == 1 else 3)


def test_an_old_dataset_that_cannot_be_put_back_is_not_deleted(
    original, folder, tmp_path, monkeypatch
):
    rename, calls = Path.rename, []

    def cut(self, target):
        calls.append(self)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", cut)
    with pytest.raises(KeyboardInterrupt):
        write_dataset(folder, list(original), original.metadata, overwrite=True)
    monkeypatch.undo()
    (kept,) = tmp_path.glob(".dataset.old.*/dataset")
    open_dataset(kept).verify()


FULL = """
import resource, sys
from pmoss_datasets import open_dataset, write_dataset
from pmoss_env.errors import DatasetError
old = open_dataset(sys.argv[1])
for limit in range(0, 60_000, 3_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write_dataset(sys.argv[1], list(old), old.metadata, overwrite=True)
    except DatasetError as error:
        print(error)
"""


def test_a_process_survives_a_full_disk(folder, tmp_path):
    old = open_dataset(folder).checksum
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    refused = done.stdout.splitlines()
    assert len(refused) > 3 and set(refused) == {f"{folder}: cannot be written: File too large"}
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]
    assert open_dataset(folder).checksum == old
    open_dataset(folder).verify()
