"""The table of training times: what it shows, and rows that it does not believe."""

import json

import pytest

from pmoss_benchmarks.texts.stored import Stored
from pmoss_benchmarks.texts.training_times import training_times
from pmoss_env.errors import DatasetError
from pmoss_env.result_files import ResultFile

HEADER = {
    "kind": "training-times",
    "task": "toy",
    "data": "pmoss/toy/mixed-v0",
    "episodes": 8,
    "seconds": 2.0,
    "changes": {},
    "torch": "2.11",
    "command": "pmoss benchmark training-times",
    "version": "0.2.0",
    "machine": {"cpu_model": "A CPU", "cpus": 2},
    "code": {"modules": []},
}
ROW = {"learner": "bc", "device": "cpu", "gpu": None, "updates": 9, "of": 600}
TIMES = {"low": 0.009, "median": 0.010, "high": 0.012}
GPU = {"device": "cuda", "gpu": "A GPU", "low": 0.004, "median": 0.005, "high": 0.006}


FILE = "benchmarks/results/training-times.jsonl"


def stored(root, *rows, **header):
    (root / FILE).parent.mkdir(parents=True)
    with ResultFile(root / FILE, {**HEADER, **header}, ("learner", "device")) as file:
        for row in rows:
            file.append(row)
    return Stored(root)


def test_devices_stand_side_by_side(tmp_path):
    alone = {**ROW, **TIMES, "learner": "cql"}
    text = training_times(stored(tmp_path, {**ROW, **TIMES}, {**ROW, **GPU}, alone))
    assert "| learner | ms, CPU | ms, A GPU | times as fast |" in text
    assert "| `bc` | 10.0 [9.0, 12.0] | 5.0 [4.0, 6.0] | 2.0 | 0.1 | 0.1 |" in text
    assert "| `cql` | 10.0 [9.0, 12.0] |  |  | 0.1 |  |" in text
    assert "the updates of the committed config." in text


def test_other_settings_and_notes_are_told(tmp_path):
    text = training_times(
        stored(tmp_path, {**ROW, **TIMES}, changes={"threads": 4}, note="One row was lost.")
    )
    assert "the committed config with {'threads': 4}." in text and "One row was lost." in text


@pytest.mark.parametrize(
    "damage",
    [
        {"learner": 3},
        {"median": None},
        {"median": 0.0},
        {"gpu": ["x"]},
        {"of": "many"},
        {"low": -1.0},
    ],
)
def test_a_row_of_something_else_is_refused(tmp_path, damage):
    with pytest.raises(DatasetError, match="is no row of training times"):
        training_times(stored(tmp_path, {**ROW, **TIMES, **damage}))


def test_an_altered_row_is_left_out(tmp_path):
    found = stored(tmp_path, {**ROW, **TIMES}, {**ROW, **TIMES, "learner": "cql"})
    path = tmp_path / FILE
    lines = path.read_text().splitlines(keepends=True)
    altered = json.loads(lines[1]) | {"median": 9.99}
    path.write_text(lines[0] + json.dumps(altered) + "\n" + lines[2])
    text = training_times(found)
    assert "`cql`" in text and "`bc`" not in text and "9990" not in text
