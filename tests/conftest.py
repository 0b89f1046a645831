"""What all tests share."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def pytest_configure() -> None:
    """Lets Ctrl-C work where the tests run in the background, whose shells ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the C++ builds first: they take longest, and the other process does the rest."""
    items.sort(key=lambda item: item.path.name != "test_cpp.py")


@pytest.fixture(scope="session")
def python_with_d3rlpy():
    """Runs Python with d3rlpy, which pins an old Gymnasium: only in a process of its own."""
    folders = [Path(sys.prefix) / name for name in ("gymnasium-oldest", "d3rlpy")]
    for folder in folders:
        assert folder.is_dir(), "run ./run test, which puts d3rlpy and its Gymnasium there"

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *arguments],
            capture_output=True,
            text=True,
            timeout=600,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(map(str, folders)),
            },
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return done.stdout

    return run
