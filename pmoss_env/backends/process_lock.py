"""Locks that do not block a forked child."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from pmoss_env.errors import ForkedError


class ProcessLock:
    """A lock for threads of one process; each forked process has its own.

    A thread that holds a lock of the :mod:`threading` module may be missing in a forked child,
    which would then wait forever. The guarded data must be consistent whenever Python code runs.
    """

    def __init__(self) -> None:
        self._locks = {os.getpid(): threading.Lock()}

    def __enter__(self) -> None:
        # A single operation on the dictionary, so that all threads get the same lock.
        self._locks.setdefault(os.getpid(), threading.Lock()).acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._locks[os.getpid()].release()


class ForkGuard:
    """Raises an error in a forked child if a thread of its parent was inside during the fork.

    The data of that thread stay inconsistent, and its locks stay held. It does not block: several
    threads of a process may be inside at the same time.
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
