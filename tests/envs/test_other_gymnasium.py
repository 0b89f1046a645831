"""The environments pass Gymnasium's checker on the oldest supported release and on the newest."""

import sys
from pathlib import Path

from tests.native.builds import run

OLDEST = Path(sys.prefix) / "gymnasium-oldest"
CHECK = Path(__file__).with_name("check_other_gymnasium.py")


def test_oldest_supported_gymnasium() -> None:
    assert OLDEST.is_dir(), "run ./run test, which puts Gymnasium 1.0.0 there"
    assert "1.0.0" in run(sys.executable, CHECK, PYTHONPATH=str(OLDEST))
