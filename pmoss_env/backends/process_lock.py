"""Locks that a forked child does not wait for."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from pmoss_env.errors import ForkedError


class ProcessLock:
    """A lock for threads of one process; each process that is forked from it has its own.

    A thread that holds a lock of the :mod:`threading` module is not in the child of another one's
    fork. The child would wait for it without end. What this lock guards must be whole whenever
    Python code runs.
    """

    def __init__(self) -> None:
        self._locks = {os.getpid(): threading.Lock()}

    def __enter__(self) -> None:
        # One operation on the dictionary, so that all threads get the same lock.
        self._locks.setdefault(os.getpid(), threading.Lock()).acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._locks[os.getpid()].release()


class Visit:
    """Says in a forked child that a thread of its parent was inside when it was forked.

    What that thread was changing stays half changed, and locks that it held stay held. Nothing is
    waited for: threads of one process may be inside at the same time.
    """

    def __init__(self) -> None:
        self._process = 0

    def __enter__(self) -> None:
        process = os.getpid()
        if self._process not in (0, process):
            raise ForkedError(
                "a thread was using it when this process was forked, and that thread stayed in the "
                "parent; make it anew in this process"
            )
        self._process = process

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process = 0
