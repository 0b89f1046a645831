"""The index of the suite grows, and names what it lacks."""

import json
from pathlib import Path

import pytest

from pmoss_benchmarks.datasets import every_id, read_index, update_index
from pmoss_benchmarks.texts.datasets import index
from pmoss_benchmarks.texts.stored import Stored
from pmoss_datasets import open_dataset
from pmoss_datasets.suite import SHIPPED, SHIPPED_ROOT
from pmoss_env.errors import DescriptionError

STORED = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "datasets.json"


def test_the_index_grows(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    toy, other = (open_dataset(SHIPPED_ROOT / SHIPPED[i]) for i in (0, 2))
    assert [one["id"] for one in update_index(path, [other])] == [other.id]
    told = json.loads(path.read_text())
    told["datasets"][0]["coverage"] = 0.5  # what is known is not looked at again
    path.write_text(json.dumps(told))
    assert [one["id"] for one in update_index(path, [other, toy])] == [other.id, toy.id]
    assert list(read_index(path)) == [toy.id, other.id]
    assert read_index(path)[other.id]["coverage"] == 0.5


def test_the_stored_index_is_of_the_suite() -> None:
    lines = read_index(STORED)
    assert set(SHIPPED) <= set(lines) <= set(every_id())
    for id_ in SHIPPED:
        assert lines[id_]["checksum"] == open_dataset(SHIPPED_ROOT / id_).checksum


def test_the_page_names_every_dataset_of_the_suite() -> None:
    text = index(Stored(STORED.parents[2]))
    assert [id_ for id_ in every_id() if f"| `{id_}` |" not in text] == []


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("[]")
    with pytest.raises(DescriptionError, match="is no index of datasets"):
        update_index(path, [])
