"""A lock that a forked child does not wait for."""

from __future__ import annotations

import os
import threading
from types import TracebackType


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
