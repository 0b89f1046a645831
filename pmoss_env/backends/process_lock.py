"""Locks that do not block a forked child, and values that they guard."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from pmoss_env.errors import ForkedError

Key = TypeVar("Key")
Value = TypeVar("Value")


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

    def __exit__(self, *_: object) -> None:
        self._locks[os.getpid()].release()


class Recent(Generic[Key, Value]):
    """What was used most recently, made where it is missing."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._lock = ProcessLock()
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of a key; a missing one takes the place of the least recently used."""
        with self._lock:
            if key not in self._values:
                while len(self._values) >= self._kept:
                    self._values.popitem(last=False)
                self._values[key] = make()
            self._values.move_to_end(key)
            return self._values[key]

    def clear(self) -> None:
        """Frees them."""
        self._values.clear()


class ForkGuard:
    """Raises an error in a forked child if a thread of its parent was inside during the fork.

    The data of that thread stay inconsistent, and its locks stay held. It does not block: several
    threads of a process may be inside at the same time.
    """

    def __init__(self) -> None:
        self._process, self._threads = os.getpid(), set[int]()

    def __enter__(self) -> None:
        process = os.getpid()
        if self._process != process and self._threads:
            raise ForkedError(
                "a thread was using it when this process was forked, and that thread stayed in the "
                "parent; make it anew in this process"
            )
        self._process = process
        self._threads.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        self._threads.discard(threading.get_ident())
