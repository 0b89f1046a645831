import os
import sys
import time

import pytest

from pmoss_env.backends.child_process import Child, Wording
from pmoss_env.errors import BackendError


def test_a_child_that_reads_nothing_does_not_hold_its_parent() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = Child(command, Wording("the child"), environment={**os.environ})
    try:
        with pytest.raises(BackendError, match="the child fell silent and was killed"):
            child.ask({"more than a pipe holds": "x" * (1 << 20)}, 0.1)
        with pytest.raises(ProcessLookupError):
            os.kill(child.process_id, 0)
    finally:
        child.close()


def test_sending_and_answering_have_one_deadline() -> None:
    # It takes the request late, and never answers.
    reads = "import sys, time; time.sleep(0.7); sys.stdin.buffer.read(1 << 20); time.sleep(600)"
    command = [sys.executable, "-S", "-c", reads]
    child = Child(command, Wording("the child"), environment={**os.environ})
    began = time.monotonic()
    try:
        with pytest.raises(BackendError, match="the child fell silent and was killed"):
            child.ask({"more than a pipe holds": "x" * (1 << 19)}, 1.5)
        assert time.monotonic() - began < 2.2
    finally:
        child.close()
