import os
import sys

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


def test_a_silent_child_is_reported_before_it_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    wording = Wording("the child", warn_seconds=0.1)
    child = Child(command, wording, environment={**os.environ})
    try:
        with pytest.raises(BackendError, match="the child fell silent and was killed"):
            child.ask({}, 0.4, expected=0.2)
        [message] = caplog.messages
        assert message == "the child has given no sign of life for 0.1 s; it is killed after 0.4 s"
    finally:
        child.close()


def test_sending_and_answering_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    child = Child(command, Wording("the child"), environment={**os.environ})
    read, deadlines = child._read, []
    monkeypatch.setattr(child, "_write", lambda frame, deadline: deadlines.append(deadline))
    monkeypatch.setattr(
        child, "_read", lambda size, deadline: deadlines.append(deadline) or read(size, deadline)
    )
    try:
        with pytest.raises(BackendError, match="the child fell silent and was killed"):
            child.ask({}, 0.1)
        assert len(deadlines) == 2
        assert deadlines[0] == deadlines[1]
    finally:
        child.close()
