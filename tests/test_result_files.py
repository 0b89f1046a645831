"""Files that a long command goes on with."""

import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pmoss_env import result_files
from pmoss_env.errors import DatasetError
from pmoss_env.result_files import (
    ResultFile,
    damaged_rows,
    differing,
    packed,
    read_rows,
    unpacked,
)
from pmoss_env.version import CONTINUED, __version__

HEADER = {"kind": "test", "env": {"slices": 4}, "tuple": (1, 2)}


def opened(path: Path | None, **changes: Any) -> ResultFile:
    return ResultFile(path, {**HEADER, **changes}, key=("a",))


def rows(path: Path) -> list[dict[str, Any]]:
    with opened(path) as file:
        return list(file.rows.values())


def filled(path: Path, *values: Any) -> bytes:
    with opened(path) as file:
        for value in values:
            file.append({"a": value})
    return path.read_bytes()


def test_rows_are_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    with opened(path) as file:
        assert file.rows == {} and not path.exists()
        file.append({"a": 1})
        assert file.append({"a": 2, "b": (2, 3)}) == {"a": 2, "b": [2, 3]}
        assert list(file.rows) == [(1,), (2,)]
    with opened(path) as file:
        assert file.get(2) == {"a": 2, "b": [2, 3]} and file.get(3) is None
        file.append({"a": 3})
    assert [row["a"] for row in rows(path)] == [1, 2, 3]


def test_a_file_of_a_version_with_the_same_bits_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    older = min(CONTINUED - {__version__})
    with opened(path, version=older) as file:
        file.append({"a": 1})
    with opened(path, version=__version__) as file:
        file.append({"a": 2})
        assert list(file.rows) == [(1,), (2,)]
    # It keeps the version that began it.
    assert read_rows(path)[0]["version"] == older
    with pytest.raises(
        DatasetError, match=r"another command: version was \".*\" and is \"0.0.1\";"
    ):
        opened(path, version="0.0.1")
    with pytest.raises(DatasetError, match=r"another command: env.slices was 4 and is null;"):
        opened(path, version=__version__, env={})


def test_what_differs_is_shown_where_it_differs():
    policies = [f"runs/agents/policy-{number}.safetensors" for number in range(9)]
    (text,) = differing({"a": {"b": policies}}, {"a": {"b": [*policies[:8], "lpt"]}})
    assert text.startswith("a.b was ...") and "policy-8" in text and '"lpt"]' in text
    assert len(text) < 160
    assert differing({"a": None, "b": 1}, {"b": 1}) == []


def test_rows_go_into_the_file_that_another_command_put_there(tmp_path, monkeypatch):
    path, lock, waiting = tmp_path / "rows.jsonl", result_files.lock, []
    filled(path, 1)

    def lock_late(file: int) -> None:
        if not waiting:  # the other command writes the file anew before this one has the lock
            waiting.append(os.replace(shutil.copy(path, tmp_path / "new"), path))
        lock(file)

    monkeypatch.setattr(result_files, "lock", lock_late)
    with opened(path) as file:
        file.append({"a": 2})
    assert waiting and [row["a"] for row in rows(path)] == [1, 2]


def test_without_a_path_nothing_is_written() -> None:
    with opened(None) as file:
        file.append({"a": 1})
        assert file.get(1) == {"a": 1}
        file.remove()


@pytest.mark.parametrize("cut", [1, 3])
def test_a_row_cut_short_is_dropped_and_reported(tmp_path, cut, caplog):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(filled(path, 1, 2)[:-cut])
    assert [row["a"] for row in read_rows(path)[1]] == [1]
    with caplog.at_level(logging.WARNING), opened(path) as file:
        assert list(file.rows) == [(1,)]
        file.append({"a": 3})
    assert "a damaged row is dropped" in caplog.text
    assert [row["a"] for row in rows(path)] == [1, 3]


def test_a_damaged_row_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path) as file:
        for number, record in enumerate((b"one", b"two\n\xff", b"three")):
            file.append({"a": number, **packed(record)})
    whole = path.read_bytes()
    first, second = (packed(record)["zlib"].encode() for record in (b"two\n\xff", b"twO\n\xff"))
    path.write_bytes(whole.replace(first, second))
    with caplog.at_level(logging.WARNING), opened(path) as file:
        assert {key: unpacked(row) for key, row in file.rows.items()} == {
            (0,): b"one",
            (2,): b"three",
        }
        file.append({"a": 1, **packed(b"two\n\xff")})
    assert "a damaged row is dropped" in caplog.text
    assert {row["a"]: unpacked(row) for row in rows(path)}[1] == b"two\n\xff"
    assert unpacked({"base64": "dHdv"}) == b"two"  # of an earlier version
    path.write_bytes(whole.replace(b'{"a": 1', b'{"b": 1').replace(b'{"a": 2', b'["a": 2'))
    assert [row["a"] for row in read_rows(path)[1]] == [0]
    assert "2 damaged rows are left out" in caplog.text and damaged_rows(path) == 2
    path.write_bytes(whole[:-1])  # the last row is still being written
    assert damaged_rows(path) == 0 and [row["a"] for row in read_rows(path)[1]] == [0, 1]
    assert [row["a"] for row in rows(path)] == [0, 1]
    # What cannot name a row names none.
    header, *_ = filled(path).splitlines(keepends=True)
    path.write_bytes(header + b'{"a": [1]}\n{"a": null}\n')
    with opened(path) as file:
        assert file.rows == {}


@pytest.mark.parametrize("left", [0, 5])
def test_a_header_cut_short_is_written_anew(tmp_path: Path, left: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(filled(path, 1)[:left])
    filled(path, 2)
    assert rows(path) == [{"a": 2}]


def test_files_of_others_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    before = filled(path, 1)
    with pytest.raises(
        DatasetError, match=r"another command: env.slices was 4 and is 5, seed was null"
    ):
        opened(path, env={"slices": 5}, seed=1)
    assert path.read_bytes() == before
    for text in ("no JSON\n", "mine", "[]\n"):
        path.write_text(text)
        with pytest.raises(DatasetError, match="not a file of results"):
            opened(path)
        assert path.read_text() == text
    with pytest.raises(DatasetError, match="nothing: cannot be read"):
        read_rows(tmp_path / "nothing")


def test_one_command_at_a_time_writes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path) as file, opened(path) as late:
        file.append({"a": 1})
        with pytest.raises(DatasetError, match="another command is writing it"):
            opened(path)
        with pytest.raises(DatasetError, match="another command is writing it"):
            late.append({"a": 2})
    with opened(path) as file:
        assert list(file.rows) == [(1,)]
        file.remove()
    assert not path.exists()


KILLED = """
import sys, time
from pathlib import Path
from pmoss_env.result_files import ResultFile
file = ResultFile(Path(sys.argv[1]), {"kind": "test"}, key=("a",))
for number in range(3):
    file.append({"a": number})
print("written", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_kill_loses_no_row(tmp_path: Path, how: signal.Signals) -> None:
    path = tmp_path / "rows.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"written\n"
    process.send_signal(how)
    process.wait()
    process.stdout.close()
    with ResultFile(path, {"kind": "test"}, key=("a",)) as file:
        assert list(file.rows) == [(0,), (1,), (2,)]


def test_what_does_not_fit_on_the_disk_leaves_the_rows_before(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    before = filled(path, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))
        with opened(path) as file, pytest.raises(DatasetError, match="cannot be written"):
            file.append({"a": 2, "long": "x" * 100})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == before


@pytest.mark.parametrize("room", [0, 10])
def test_a_file_that_a_full_disk_left_empty_is_gone_on_with(tmp_path, monkeypatch, room):
    path, write = tmp_path / "rows.jsonl", os.write

    def no_room(handle: int, data: bytes) -> int:
        if room and not os.fstat(handle).st_size:
            return write(handle, bytes(data[:room]))
        raise OSError(28, "No space left on device")

    with opened(path) as file:
        monkeypatch.setattr("pmoss_env.result_files.os.write", no_room)
        with pytest.raises(DatasetError, match=r"rows.jsonl: cannot be written: No space left"):
            file.append({"a": 1})
        assert path.read_bytes() == b"" and not file.rows
        # The same process may have room later, and so may another.
        monkeypatch.undo()
        file.append({"a": 2})
    assert rows(path) == [{"a": 2}]
    path.write_bytes(b"")
    with pytest.raises(DatasetError, match="is not a file of results"):
        read_rows(path)
    with opened(path, env={"slices": 8}) as other:
        other.append({"a": 3})
    assert read_rows(path)[1] == [{"a": 3}]
