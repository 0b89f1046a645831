"""Children that fall silent, and locks that a fork leaves behind."""

import os
import signal
import sys
import threading
import warnings
from contextlib import closing
from typing import Any

import pytest

from pmoss_env.backends.child_process import Child, Wording
from pmoss_env.backends.process_lock import ProcessLock
from pmoss_env.errors import BackendError

SILENT = "the child fell silent and was killed"


def silent_child(**wording: Any) -> closing[Child]:
    """A child that neither reads nor answers."""
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    return closing(Child(command, Wording("the child", **wording), environment={**os.environ}))


def test_a_child_that_reads_nothing_does_not_hold_its_parent() -> None:
    with silent_child() as child:
        with pytest.raises(BackendError, match=SILENT):
            child.ask({"more than a pipe holds": "x" * (1 << 20)}, 0.1)
        with pytest.raises(ProcessLookupError):
            os.kill(child.process_id, 0)


def test_a_silent_child_is_reported_before_it_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    with silent_child(warn_seconds=0.1) as child, pytest.raises(BackendError, match=SILENT):
        child.ask({}, 0.4, expected=0.2)
    [message] = caplog.messages
    assert message == "the child has given no sign of life for 0.1 s; it is killed after 0.4 s"


def test_sending_and_answering_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_child() as child:
        read, deadlines = child._read, []
        monkeypatch.setattr(child, "_write", lambda frame, deadline: deadlines.append(deadline))
        monkeypatch.setattr(
            child, "_read", lambda size, end: deadlines.append(end) or read(size, end)
        )
        with pytest.raises(BackendError, match=SILENT):
            child.ask({}, 0.1)
    assert len(deadlines) == 2 and deadlines[0] == deadlines[1]


def test_a_forked_child_does_not_wait_for_its_parents_threads():
    lock = ProcessLock()
    held, over = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # by Python 3.12: there are threads
        child = os.fork()
    if child == 0:
        signal.alarm(120)
        with lock:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    over.set()
    thread.join()
    assert status == 0
