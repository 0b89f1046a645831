"""The log of a training goes on where its checkpoint stopped, and refuses what is none."""

import json
from pathlib import Path

import pytest

from pmoss_agents.training_log import TrainingLog, read_log
from pmoss_env.errors import DatasetError


def test_a_log_goes_on_after_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "log.jsonl"
    assert read_log(path) == []
    path.parent.mkdir()
    first = TrainingLog(path)
    for update in (1, 2, 3):
        first(update, 10, {"loss": 1 / update, "accuracy": 0.5})
    assert [row["update"] for row in read_log(path)] == [1, 2, 3]
    assert read_log(path)[2]["loss"] == 0.333333
    # Update 3 came after the last checkpoint: it is made again.
    before = read_log(path)[1]["cpu_seconds"]
    second = TrainingLog(path, updates=2)
    second(3, 10, {"loss": 0.25})
    rows = read_log(path)
    assert [row["update"] for row in rows] == [1, 2, 3] and rows[2]["loss"] == 0.25
    assert rows[2]["cpu_seconds"] >= before


def test_a_line_that_was_cut_is_left_out_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = json.dumps({"update": 1, "cpu_seconds": 2.5}) + "\n"
    path.write_text(whole + '{"update": 2, "cpu_')
    assert [row["update"] for row in read_log(path)] == [1]
    log = TrainingLog(path, updates=1)
    assert path.read_text() == whole and log.cpu_seconds >= 2.5
    path.write_text("no log\n" + whole)
    with pytest.raises(DatasetError, match="line 1: is no line of a training's log"):
        read_log(path)
