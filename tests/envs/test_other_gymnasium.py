"""The environments pass Gymnasium's checker on the oldest supported release and on the newest."""

import os
import subprocess
import sys
from pathlib import Path

OLDEST = Path(sys.prefix) / "gymnasium-oldest"
CHECK = Path(__file__).with_name("check_other_gymnasium.py")


def run_check(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(CHECK)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_oldest_supported_gymnasium() -> None:
    assert OLDEST.is_dir(), "run ./run test, which puts Gymnasium 1.0.0 there"
    assert "1.0.0" in run_check(PYTHONPATH=str(OLDEST))
