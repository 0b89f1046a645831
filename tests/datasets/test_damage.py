"""Damaged and foreign files are refused by name."""

import re

import h5py
import numpy as np
import pytest

from pmoss_datasets import SCHEMA_VERSION, Recipe, collect, open_dataset
from pmoss_datasets import storage as storage_module
from pmoss_env.errors import DatasetError
from tests.datasets.damaging import TOY, rewrite

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
    assert [problem.split(": ")[1] for problem in dataset.problems()] == [
        "codes/order",
        "codes/actions",
    ]


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
                    np.testing.assert_array_equal(
                        dataset.column(field.name), original.column(field.name)
                    )
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
    recipe = Recipe(env=TOY, episodes=5, seed=3, reference_episodes=0)
    other = collect(recipe, tmp_path / "other")
    (folder / "metadata.json").write_bytes((other.path / "metadata.json").read_bytes())
    with pytest.raises(DatasetError, match="differs from what was written"):
        open_dataset(folder)
