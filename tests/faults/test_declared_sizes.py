"""Sizes that a file declares are held against what it can hold."""

import shutil

import h5py
import numpy as np
import pytest

import pmoss_agents
from pmoss_datasets import open_dataset, suite
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.machines.topology import MAX_CORES, read_topology
from pmoss_env.types import LoadRegime
from tests.faults.tampering import change_metadata

EPISODES = 10**9


def declare(folder, name, shape):
    """Replaces an array by one of another shape that takes no room in the file."""
    with h5py.File(folder / "data.hdf5", "a") as file:
        kind = file[name].dtype
        del file[name]
        file.create_dataset(
            name, shape=shape, dtype=kind, chunks=None if 0 in shape else (64, *shape[1:])
        )


def test_more_episodes_than_the_file_can_hold_are_refused(whole, tmp_path):
    folder = change_metadata(whole.path, tmp_path / "bomb", episodes=EPISODES)
    for field in whole.metadata.fields:
        shape = (EPISODES, *whole.column(field.name).shape[1:])
        declare(folder, field.name, shape)
    with pytest.raises(DatasetError, match=r"declares \d+ bytes: no file of this size"):
        open_dataset(folder)


@pytest.mark.parametrize("kind", ["external link", "soft link", "virtual", "external storage"])
def test_arrays_of_other_files_are_refused(whole, tmp_path, kind):
    folder = tmp_path / "linked"
    shutil.copytree(whole.path, folder)
    other = tmp_path / "secret.hdf5"
    shutil.copy(whole.path / "data.hdf5", other)
    with h5py.File(folder / "data.hdf5", "a") as file:
        shape, dtype = file["seed"].shape, file["seed"].dtype
        del file["seed"]
        if kind == "external link":
            file["seed"] = h5py.ExternalLink(str(other), "/seed")
        elif kind == "soft link":
            file["seed"] = h5py.SoftLink("/episode")
        elif kind == "virtual":
            layout = h5py.VirtualLayout(shape=shape, dtype=dtype)
            layout[:] = h5py.VirtualSource(str(other), "seed", shape=shape)
            file.create_virtual_dataset("seed", layout)
        else:
            secret = [(str(other), 0, h5py.h5f.UNLIMITED)]
            file.create_dataset("seed", shape=shape, dtype=dtype, external=secret)
    with pytest.raises(DatasetError, match="seed: must be an array of this file itself"):
        open_dataset(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": [1_000_000, 1_000_000]}, "topology.grid"),
        ({"sockets": 10**9}, "topology.sockets"),
        ({"sockets": 8000, "nodes_per_socket": 8000}, "topology.sockets = 8000"),
        ({"cores_per_node": 10**12}, "topology.cores_per_node"),
        ({"sockets": 2, "cores_per_node": [8000, 8000]}, "16000 cores in all"),
    ],
)
def test_a_machine_has_a_possible_size(change, message):
    small = {"sockets": 1, "nodes_per_socket": 1, "cores_per_node": 4, "cores_per_llc": 4}
    with pytest.raises(DescriptionError, match=message):
        read_topology({**small, "grid": [2, 2], **change}, {"worker": [0, 1, 2, 3]})
    assert MAX_CORES >= 8192


def test_no_load_is_absurd():
    for text in ("closed:1000000000000", "closed:" + "9" * 5000, "open:1_000", "open:\u0661"):
        with pytest.raises(KeyError, match="unknown load"):
            LoadRegime.parse(text)
    assert LoadRegime.parse("open:1e-3").offered_mq_per_s == 0.001


def test_chunks_larger_than_their_array_are_refused(whole, tmp_path):
    folder = tmp_path / "chunks"
    shutil.copytree(whole.path, folder)
    with h5py.File(folder / "data.hdf5", "a") as file:
        data = np.asarray(file["seed"])
        del file["seed"]
        chunks = (2**25,)
        file.create_dataset("seed", data=data, maxshape=(None,), chunks=chunks, compression=1)
    with pytest.raises(DatasetError, match="seed: declares"):
        open_dataset(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"width": 16384, "layers": 64}, "width = 16384: must be at most 4096"),
        ({"width": 4096, "layers": 64}, "width = 4096: must give at most"),
        ({"batch_size": 10**12}, "batch_size = 1000000000000: must be at most"),
        ({"layers": 10**30}, "layers = 10+: must be at most"),
    ],
)
def test_no_config_asks_for_more_memory_than_there_is(config, message):
    pytest.importorskip("torch")
    with pytest.raises(DescriptionError, match=message):
        pmoss_agents.make("decision-transformer", **config)


@pytest.mark.parametrize("episodes", [2, 10**12])
def test_a_rebuild_makes_no_more_episodes_than_the_file_holds(whole, tampered, tmp_path, episodes):
    folder = tampered(recipe={**whole.metadata.recipe, "episodes": episodes})
    with pytest.raises(DatasetError, match=f"asks for {episodes} episodes, and the file holds 3"):
        suite.rebuild(open_dataset(folder), tmp_path / "again")
    assert not (tmp_path / "again.partial").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference_budget": 10**12}, "reference_budget = 1000000000000: must be at most 1000000"),
        (
            {"behaviours": [{"policy": "local-search", "budget": 10**12}]},
            "local-search: budget = 1000000000000: must be from 1 to 1000000",
        ),
    ],
)
def test_a_rebuild_searches_no_longer_than_a_search_may_take(
    whole, tampered, tmp_path, changes, message
):
    folder = tampered(recipe={**whole.metadata.recipe, **changes})
    with pytest.raises(DescriptionError, match=message):
        suite.rebuild(open_dataset(folder), tmp_path / "again")
    assert not (tmp_path / "again.partial").exists()
