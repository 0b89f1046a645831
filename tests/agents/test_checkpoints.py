"""Checkpoints: what is written is read, damaged and foreign ones are refused."""

import sys
from pathlib import Path

import numpy as np
import pytest

import pmoss_agents
from pmoss_agents import checkpoints
from pmoss_env.errors import CheckpointError, MissingExtraError

HEADER = {"agent": "threads-linucb", "config": {}, "task": {}, "values": {"updates": 3}}
ARRAYS = {
    "weights": np.arange(12, dtype=np.float32).reshape(3, 4),
    "count": np.array([1, 2], dtype=np.int64),
    "step": np.array(7.0, dtype=np.float32),
    "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    "none": np.zeros((0, 5)),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    checkpoints.write(path, HEADER, ARRAYS)
    header, arrays = checkpoints.read(path)
    assert {key: header[key] for key in HEADER} == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(arrays[name], array)
    assert [file.name for file in tmp_path.iterdir()] == ["agent.safetensors"]


def test_any_reader_of_safetensors_reads_it(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    checkpoints.write(tmp_path / "agent.safetensors", HEADER, ARRAYS)
    arrays = numpy.load_file(tmp_path / "agent.safetensors")
    np.testing.assert_array_equal(arrays["weights"], ARRAYS["weights"])


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    checkpoints.write(path, HEADER, ARRAYS)
    clean = path.read_bytes()
    for length in (0, 7, 8, 100, len(clean) // 2, len(clean) - 1):
        path.write_bytes(clean[:length])
        with pytest.raises(CheckpointError, match=r"agent\.safetensors"):
            checkpoints.read(path)
    path.write_bytes(clean + b"\0")
    with pytest.raises(CheckpointError, match=r"agent\.safetensors"):
        checkpoints.read(path)
    for position in range(len(clean)):
        data = bytearray(clean)
        data[position] ^= 0x10
        path.write_bytes(bytes(data))
        with pytest.raises(CheckpointError, match=r"agent\.safetensors"):
            checkpoints.read(path)


def test_foreign_files_and_other_versions_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "agent.safetensors"
    with pytest.raises(CheckpointError, match="does not exist"):
        checkpoints.read(path)
    with pytest.raises(CheckpointError, match="the agent is pmoss/generalist-v1"):
        pmoss_agents.load("generalist-v1")
    with pytest.raises(CheckpointError, match="is a folder"):
        checkpoints.read(tmp_path)
    (tmp_path / "metadata.json").touch()
    with pytest.raises(CheckpointError, match="is a dataset, and a checkpoint is wanted"):
        checkpoints.read(tmp_path)
    path.write_bytes(b"anything else, of some length")
    with pytest.raises(CheckpointError, match="damaged or no checkpoint"):
        checkpoints.read(path)
    pytest.importorskip("safetensors.numpy").save_file({"a": np.zeros(3)}, path)
    with pytest.raises(CheckpointError, match="is not a pmoss-agent file"):
        checkpoints.read(path)
    monkeypatch.setattr(checkpoints, "VERSION", 4)
    checkpoints.write(path, HEADER, ARRAYS)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"version = '4': this version reads 3"):
        checkpoints.read(path)


def test_without_safetensors_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingExtraError, match=r"safetensors.*'\.\[agents\]'"):
        checkpoints.write(tmp_path / "agent.safetensors", HEADER, ARRAYS)


def test_a_folder_is_no_place_for_a_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match="is a folder: name a file in it"):
        checkpoints.write(tmp_path, HEADER, ARRAYS)


def test_the_same_agent_gives_the_same_file(tmp_path: Path) -> None:
    header = {"agent": "x", "config": {"name": "ü"}, "values": {}}
    arrays = {"b": np.arange(3, dtype=np.float32), "a": np.ones((2, 2))}
    files = [tmp_path / f"{number}.safetensors" for number in range(8)]
    for file in files:
        checkpoints.write(file, header, arrays)
    # Each write would draw another order with a chance of 23 in 24.
    assert len({file.read_bytes() for file in files}) == 1
    kept, read = checkpoints.read(files[0])
    assert kept["config"] == header["config"]
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())
