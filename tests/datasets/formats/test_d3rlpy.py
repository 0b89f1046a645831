"""d3rlpy pins an old Gymnasium, so it is asked in a process of its own."""

import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).with_name("check_d3rlpy.py")


def test_d3rlpy_learns_from_it_and_what_it_collects_is_scored(
    tmp_path: Path, python_with_d3rlpy
) -> None:
    told = python_with_d3rlpy(str(CHECK), str(tmp_path))
    assert told.splitlines()[-1] == "2.8.1 1.0.0"


def test_without_d3rlpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from pmoss_datasets.formats.d3rlpy import to_d3rlpy
    from pmoss_env.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    with pytest.raises(MissingExtraError, match=r"pmoss-env\[d3rlpy\]"):
        to_d3rlpy(None)  # type: ignore[arg-type]
