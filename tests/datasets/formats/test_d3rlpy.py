"""d3rlpy pins an old Gymnasium, so it is asked in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDERS = [Path(sys.prefix) / "gymnasium-oldest", Path(sys.prefix) / "d3rlpy"]
CHECK = Path(__file__).with_name("check_d3rlpy.py")


def test_d3rlpy_learns_from_it_and_what_it_collects_is_scored(tmp_path: Path) -> None:
    for folder in FOLDERS:
        assert folder.is_dir(), "run ./run test, which puts d3rlpy and its Gymnasium there"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(CHECK), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, FOLDERS))},
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert done.stdout.splitlines()[-1] == "2.8.1 1.0.0"


def test_without_d3rlpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from pmoss_datasets.formats.d3rlpy import to_d3rlpy
    from pmoss_env.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    with pytest.raises(MissingExtraError, match=r"pmoss-env\[d3rlpy\]"):
        to_d3rlpy(None)  # type: ignore[arg-type]
