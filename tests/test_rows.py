"""Files that a long command goes on with."""

from pathlib import Path

import pytest

from pmoss_env.errors import DescriptionError
from pmoss_env.rows import RowFile

HEADER = {"kind": "test", "env": {"slices": 4}, "tuple": (1, 2)}


def test_rows_are_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    file = RowFile(path, HEADER)
    assert file.rows == []
    file.append({"a": 1})
    file.append({"a": (2, 3)})
    assert RowFile(path, HEADER).rows == [{"a": 1}, {"a": [2, 3]}] == file.rows


@pytest.mark.parametrize("cut", [1, 3])
def test_a_row_cut_short_is_dropped(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rows.jsonl"
    file = RowFile(path, HEADER)
    file.append({"a": 1})
    file.append({"a": 2})
    path.write_bytes(path.read_bytes()[:-cut])
    again = RowFile(path, HEADER)
    assert again.rows == [{"a": 1}]
    again.append({"a": 3})
    assert RowFile(path, HEADER).rows == [{"a": 1}, {"a": 3}]


def test_a_header_cut_short_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    RowFile(path, HEADER)
    path.write_bytes(path.read_bytes()[:5])
    RowFile(path, HEADER).append({"a": 1})
    assert RowFile(path, HEADER).rows == [{"a": 1}]


def test_files_of_others_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    RowFile(path, HEADER).append({"a": 1})
    before = path.read_bytes()
    with pytest.raises(DescriptionError, match="another command: env differ"):
        RowFile(path, {**HEADER, "env": {"slices": 5}})
    assert path.read_bytes() == before
    path.write_text("no JSON\n")
    with pytest.raises(DescriptionError, match="not a file of results"):
        RowFile(path, HEADER)
    assert path.read_text() == "no JSON\n"
