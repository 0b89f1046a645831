"""Pipes, devices, bombs and files of absurd sizes are refused, at once."""

import json
import os
import shutil
import socket
from dataclasses import replace
from functools import partial

import h5py
import numpy as np
import pytest

import pmoss_agents
from pmoss_agents.configs import read_config
from pmoss_datasets import Recipe, open_dataset, suite
from pmoss_datasets.evaluation import read_results
from pmoss_datasets.original.numbers import read_rows
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.errors import DatasetError, DescriptionError, PmossError
from pmoss_env.files import parse_json, parse_toml, read_bytes, write_atomically
from pmoss_env.machines import load_machine
from pmoss_env.machines.importing import read_lstopo
from pmoss_env.machines.topology import MAX_CORES, read_topology
from pmoss_env.result_files import ResultFile
from pmoss_env.schedule_files import read_schedule
from pmoss_env.types import LoadRegime
from pmoss_env.workloads import load_workload
from tests.faults.tampering import change_metadata

#: What reads a file of each kind; the name that the file must have.
READERS = {
    "metadata.json": lambda path: open_dataset(path.parent),
    "machine.toml": lambda path: load_machine(str(path)),
    "workload.toml": lambda path: load_workload(str(path)),
    "recipe.toml": Recipe.from_toml,
    "config.toml": read_config,
    "results.jsonl": read_results,
    "kept.jsonl": lambda path: ResultFile(path, {"kind": "x"}, ["a"]),
    "schedule.json": lambda path: read_schedule(path, load_machine("toy")),
    "server.xml": read_lstopo,
    "original.txt": read_rows,
    "keys": lambda path: native_workload(replace(load_workload("lookups"), keys=f"sosd:{path}")),
    "points.npy": lambda path: load_workload(f"points:{path}"),
    "agent.safetensors": pmoss_agents.load,
}


def _socket(path):
    # By a short relative name: the names of sockets are at most 107 bytes.
    folder = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(folder)


@pytest.mark.parametrize("make", [os.mkfifo, partial(os.symlink, "/dev/zero"), _socket, os.mkdir])
@pytest.mark.parametrize("name", READERS)
def test_only_regular_files_are_read(tmp_path, name, make):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    make(path)
    with pytest.raises(PmossError, match=path.name) as refused:
        READERS[name](path)
    assert "Errno 0" not in str(refused.value)


def test_nesting_without_end_is_a_plain_error(tmp_path):
    for text in ("[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(ValueError, match="nested too deep"):
            parse_json(text)
    for text in ("a = " + "[" * 100_000, "a = " + "{b = " * 100_000):
        with pytest.raises(ValueError, match="nested too deep"):
            parse_toml(text)
    for text in (".".join("a" * 20_000) + " = 1", "[" + ".".join(['"a b"'] * 9999) + "]"):
        with pytest.raises(ValueError, match="a key of more than 32 parts"):
            parse_toml(text)
    assert parse_toml('text = "1.5.6 and so on..."\n[a.b.c]\nd.e = 1.5') is not None
    for name in ("machine.toml", "workload.toml", "recipe.toml", "config.toml"):
        path = tmp_path / name
        path.write_text("a = " + "[" * 100_000)
        with pytest.raises(PmossError, match="nested too deep"):
            READERS[name](path)
    for name in ("metadata.json", "results.jsonl", "schedule.json"):
        path = tmp_path / name
        path.write_text("[" * 100_000)
        with pytest.raises(PmossError, match=r"nested too deep|is not JSON"):
            READERS[name](path)


def test_too_much_is_not_read(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(b"x" * 1001)
    assert len(read_bytes(path, 1001)) == 1001
    with pytest.raises(OSError, match="has more than 1000 bytes"):
        read_bytes(path, 1000)


def test_a_schedule_of_another_format_is_refused(tmp_path):
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps({"format": "something", "cores": [0]}))
    with pytest.raises(PmossError, match="format = 'something'"):
        read_schedule(path, load_machine("toy"))


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_have_the_mode_that_the_user_wants(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_failed_write_names_the_file_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_atomically(tmp_path / "file", "text")
    assert caught.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


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
        declare(folder, field.name, (EPISODES, *whole.column(field.name).shape[1:]))
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
        file.create_dataset("seed", data=data, maxshape=(None,), chunks=(2**25,), compression=1)
    with pytest.raises(DatasetError, match="seed: declares"):
        open_dataset(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"width": 16384, "layers": 64}, "width = 16384: must be at most 4096"),
        ({"batch_size": 10**12}, "batch_size = 1000000000000: must be at most"),
        ({"layers": 10**30}, "layers = 10+: must be at most"),
    ],
)
def test_no_config_asks_for_more_memory_than_there_is(config, message):
    pytest.importorskip("torch")
    with pytest.raises(DescriptionError, match=message):
        pmoss_agents.make("decision-transformer", **config)


HUGE, LIMIT = 10**12, "must be at most 1000000"
LONG = [{"policy": "local-search", "budget": HUGE}]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"episodes": 2}, DatasetError, "asks for 2 episodes, and the file holds 3"),
        ({"episodes": HUGE}, DatasetError, f"asks for {HUGE} episodes, and the file holds 3"),
        ({"reference_budget": HUGE}, DescriptionError, f"reference_budget = {HUGE}: {LIMIT}"),
        ({"behaviours": LONG}, DescriptionError, "must be from 1 to 1000000"),
    ],
)
def test_a_rebuild_makes_what_the_file_holds_and_searches_no_longer_than_a_search_may(
    whole, tampered, tmp_path, changes, error, message
):
    folder = tampered(recipe={**whole.metadata.recipe, **changes})
    with pytest.raises(error, match=message):
        suite.rebuild(open_dataset(folder), tmp_path / "again")
    assert not (tmp_path / "again.partial").exists()
