"""Pipes, devices, sockets, folders and bombs in place of files are refused, at once."""

import json
import os
import socket

import pytest

import pmoss_agents
from pmoss_agents.configs import read_config
from pmoss_datasets import Recipe, open_dataset
from pmoss_datasets.evaluation import read_results
from pmoss_datasets.original.numbers import read_rows
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.errors import PmossError
from pmoss_env.files import parse_json, parse_toml, read_bytes, write_atomically
from pmoss_env.machines import load_machine
from pmoss_env.machines.importing import read_lstopo
from pmoss_env.result_files import ResultFile
from pmoss_env.schedule_files import read_schedule
from pmoss_env.workloads import load_workload


def _keys(path):
    lines = load_workload("lookups")
    from dataclasses import replace

    return native_workload(replace(lines, keys=f"sosd:{path}"))


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
    "keys": _keys,
    "agent.safetensors": pmoss_agents.load,
}


def _pipe(path):
    os.mkfifo(path)


def _device(path):
    path.symlink_to("/dev/zero")


def _socket(path):
    # By a short relative name: the names of sockets are at most 107 bytes.
    folder = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(folder)


def _folder(path):
    path.mkdir()


@pytest.mark.parametrize("make", [_pipe, _device, _socket, _folder])
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
