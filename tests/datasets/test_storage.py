"""What is written is what is read, whole or not at all; damage is refused by name."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from pmoss_datasets import (
    FIELDS,
    SCHEMA_VERSION,
    Behaviour,
    Recipe,
    collect,
    open_dataset,
    write_dataset,
)
from pmoss_datasets import folder as folder_module
from pmoss_datasets import storage as storage_module
from pmoss_datasets.card import card
from pmoss_env.errors import DatasetError, UnknownNameError
from tests.datasets.damaging import TOY, rewrite


def test_unknown_fields_are_named(original):
    for name in ("bogus", "counterfactual"):
        with pytest.raises(UnknownNameError, match=f"field '{name}'"):
            original.column(name)


def test_round_trip(original):
    again = open_dataset(original.path)
    again.verify()
    assert again.metadata == original.metadata and len(again) == 5
    for mine, theirs in zip(again, original, strict=True):
        for field in original.metadata.fields:
            np.testing.assert_array_equal(
                getattr(mine, field.name), getattr(theirs, field.name), err_msg=field.name
            )
    assert isinstance(again[0].seed, int)
    assert isinstance(again[-1].final_throughput, float)
    with pytest.raises(IndexError):
        again[5]
    for wrong in (slice(5), "5", np.ones(5, dtype=bool)):
        with pytest.raises(
            TypeError, match=r"one whole number: \[dataset\[i\] for i in range\(5\)"
        ):
            again[wrong]


def test_every_field_has_a_unit_and_a_meaning(original):
    assert all(field.unit and field.meaning for field in FIELDS)
    with h5py.File(original.path / "data.hdf5") as file:
        stored = {field.name for field in FIELDS if not field.optional}
        assert {name for name in file if name != "codes"} == stored


def test_an_episode_of_256_slices_takes_at_most_40_kilobytes(tmp_path):
    small = {"episodes": 4, "tier": "any", "reference_episodes": 0}
    behaviours = (Behaviour("lpt"), Behaviour("random"))
    recipe = Recipe(env={"interference": "busy_core"}, behaviours=behaviours, **small)
    dataset = collect(recipe, tmp_path / "dataset")
    assert sum(path.stat().st_size for path in dataset.path.iterdir()) / len(dataset) <= 40_000


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
            counters = getattr(episode, f"{when}_counters")
            ratio = getattr(episode, f"{when}_running_ratio")
            assert counters.shape == getattr(other, f"{when}_counters").shape
            assert np.array_equal(counters[:, kept], getattr(other, f"{when}_counters")[:, kept])
            assert not counters[:, lacking].any() and not ratio[lacking].any()
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


SCORE = {"mean": 1.0, "std": 1.0, "n": 0}


def overwrite(folder, name, index, value):
    """Changes a value and all sums over it, as a foreign writer would."""
    with h5py.File(folder / "data.hdf5", "a") as file:
        file[name][index] = value
        array = file[name][()]
        file[f"codes/{name}"][...] = storage_module._episode_codes(array)
    rewrite(folder, lambda d: d["checksums"].update({name: storage_module.checksum(array)}))


@pytest.mark.parametrize(
    ("name", "index", "value", "text"),
    [
        ("incumbent_counters", (1, 2, 3), np.nan, "episode 1, entry 2, counter 3: incumbent_count"),
        ("actions", (2, 0), 0, "episode 2, entry 0: actions = 0: is no tile of a worker"),
        ("actions", (2, 0), 999, "episode 2, entry 0: actions = 999: is no tile"),
        ("actions", (2, 0), -1, "episode 2, entry 0: actions = -1: is no tile"),
        ("episode", 3, 0, "episode 3: episode = 0: is the number of an earlier"),
        ("final_nodes", 4, 1, r"episode 4, entry \d: final_nodes = 1: is not the node of"),
        ("final_throughput", 0, np.inf, "episode 0: final_throughput = inf: must be finite"),
    ],
)
def test_impossible_values_of_a_foreign_writer_are_never_read(folder, name, index, value, text):
    overwrite(folder, name, index, value)
    dataset = open_dataset(folder)
    with pytest.raises(DatasetError, match=rf"data\.hdf5: {text}"):
        dataset[0]
    assert any(re.search(text, problem) for problem in dataset.problems())


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("env_kwargs", {**TOY, "constraints": 5}, "constraints = 5: must be null or"),
        ("env_kwargs", {**TOY, "constraints": {"max_slices_per_core": "x"}}, "constraints = "),
        ("env_kwargs", {**TOY, "observation": "weird"}, "observation = 'weird': must be one of"),
        ("env_kwargs", {**TOY, "order": 5}, "order = 5: must be one of"),
        ("env_kwargs", {**TOY, "slices": 9}, "slices = 9: must be 8"),
        ("reference_scores", {"random": 5}, r"reference_scores\[...\] = .*: must be a table"),
        ("reference_scores", {"random": {"mean": "x"}}, "reference_scores.* must be a number"),
        ("reference_scores", {"random": SCORE}, "reference_scores: random = .*: n must be"),
        ("policy_names", [1, 2], r"policy_names\[0\] = 1: must be a text"),
        ("id", "pmoss/toy/mixed-v\u0663", "must look like"),
        ("env_kwargs", {**TOY, "load": "open:1_000"}, "env_kwargs: unknown load 'open:1_000'"),
        ("env_kwargs", {**TOY, "index": "x"}, "env_kwargs: unknown index 'x'"),
        ("env_kwargs", {**TOY, "interference": 5}, "env_kwargs: unknown interference 5"),
        ("headroom", {"x": 1}, "headroom: headroom = None: must be a number"),
        ("id", "../../x", r"id '../../x': must look like"),
    ],
)
def test_metadata_that_readers_would_stumble_over_is_refused(folder, key, value, text):
    rewrite(folder, lambda data: data.update({key: value}))
    with pytest.raises(DatasetError, match=rf"metadata\.json: .*{text}"):
        open_dataset(folder)


def test_damaged_codes_are_reported_and_hurt_no_reader(folder):
    with h5py.File(folder / "data.hdf5", "a") as file:
        file["codes/actions"][1] += 1
        del file["codes/order"]
        file["codes/order"] = np.zeros(2, np.uint32)
    dataset = open_dataset(folder)
    assert dataset[1].actions.size == 8
    problems = [problem.split(": ")[1] for problem in dataset.problems()]
    assert problems == ["codes/order", "codes/actions"]


def test_flipped_bytes_of_a_field_name_the_field_and_the_episodes(folder):
    with h5py.File(folder / "data.hdf5") as file:
        chunk = file["actions"].id.get_chunk_info(0)
    path = folder / "data.hdf5"
    data = bytearray(path.read_bytes())
    data[chunk.byte_offset + chunk.size // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    dataset = open_dataset(folder)
    dataset.column("order")  # the others stay readable
    with pytest.raises(DatasetError, match=r"data\.hdf5: episodes? 0.*actions"):
        dataset.column("actions")
    with pytest.raises(DatasetError, match="actions"):
        dataset[0]


def test_any_flipped_byte_gives_a_dataset_error_or_the_same_values(folder, original):
    rng = np.random.default_rng(0)
    for name in ("data.hdf5", "metadata.json"):
        path = folder / name
        clean = path.read_bytes()
        for position in rng.integers(len(clean), size=60):
            data = bytearray(clean)
            data[position] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(data))
            try:
                dataset = open_dataset(folder)
                dataset.verify()
            except DatasetError as error:
                assert name in str(error) or "metadata.json" in str(error)
            else:  # the byte was padding
                for field in original.metadata.fields:
                    both = (data.column(field.name) for data in (dataset, original))
                    np.testing.assert_array_equal(*both)
        path.write_bytes(clean)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d.update(schema_version=SCHEMA_VERSION + 1), "schema_version = 4: .*newer"),
        (lambda d: d.update(schema_version=SCHEMA_VERSION - 1), "_version = 2: .*from its recipe"),
        (lambda d: d.update(format="minari"), "is not the metadata"),
        (lambda d: d["env_kwargs"].update(machine="cray-1"), "machine = 'cray-1': unknown"),
        (lambda d: d.update(optional_fields=["surprise"]), "optional_fields: 'surprise': unknown"),
        (lambda d: d["machine"].update(workers=[1, 2]), "its workers differ"),
        (lambda d: d["machine"].pop("workers"), "its workers differ"),
        (lambda d: d["counter_names"].__setitem__(3, "tea_breaks"), "'tea_breaks': unknown: writ"),
        (lambda d: d["counter_names"].__setitem__(3, "cycles"), "'cycles': is there twice"),
    ],
)
def test_newer_and_foreign_metadata_are_refused(folder, change, text):
    rewrite(folder, change)
    with pytest.raises(DatasetError, match=rf"dataset.*: .*{text}"):
        open_dataset(folder)


def test_metadata_that_are_none_are_refused(folder):
    (folder / "metadata.json").write_text("{")
    with pytest.raises(DatasetError, match=r"metadata\.json: cannot be read"):
        open_dataset(folder)
    (folder / "metadata.json").unlink()
    with pytest.raises(DatasetError, match=r"metadata\.json: is missing"):
        open_dataset(folder)


def test_foreign_hdf5_is_refused(folder):
    path = folder / "data.hdf5"
    path.unlink()
    with h5py.File(path, "w") as file:
        file["observations"] = np.zeros(3)
    with pytest.raises(DatasetError, match="not of a pmoss-dataset"):
        open_dataset(folder)
    path.write_text("no HDF5")
    with pytest.raises(DatasetError, match=r"data\.hdf5: is truncated, damaged or no HDF5"):
        open_dataset(folder)
    path.unlink()
    with pytest.raises(DatasetError, match=r"data\.hdf5: is missing"):
        open_dataset(folder)


def test_missing_and_misshapen_fields_are_named(folder):
    with h5py.File(folder / "data.hdf5", "a") as file:
        del file["final_cores"]
    with pytest.raises(DatasetError, match="final_cores: is missing"):
        open_dataset(folder)
    with h5py.File(folder / "data.hdf5", "a") as file:
        file["final_cores"] = np.zeros((5, 7), dtype=np.int16)
    with pytest.raises(DatasetError, match=r"final_cores: int16 \(5, 7\): must be int16 \(5, 8\)"):
        open_dataset(folder)


def test_files_of_two_datasets_do_not_mix(folder, original, tmp_path):
    other = collect(Recipe(env=TOY, episodes=5, seed=3, reference_episodes=0), tmp_path / "other")
    (folder / "metadata.json").write_bytes((other.path / "metadata.json").read_bytes())
    with pytest.raises(DatasetError, match="differs from what was written"):
        open_dataset(folder)
