"""A dataset is written whole or not at all."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pmoss_datasets import folder as folder_module
from pmoss_datasets import open_dataset, write_dataset
from pmoss_datasets import storage as storage_module
from pmoss_env.errors import DatasetError


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
