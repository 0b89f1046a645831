"""Processes that notice the end of this one, and the signals that end a command."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import IO, Any
from weakref import WeakSet

#: Signals that end a command: Ctrl-C, `kill`, and a closed terminal.
ENDING = (
    signal.SIGINT,
    signal.SIGTERM,
    *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []),
)


#: Name of threads in long native work. A stopped command does not wait for them.
NATIVE_WORK = "pmoss native work"


def native_work_goes_on() -> bool:
    """Whether a thread is in native work that nothing interrupts."""
    return any(thread.name == NATIVE_WORK for thread in threading.enumerate())


def die_with_parent(parent: int) -> None:
    """Ends this worker process with its parent, and ignores Ctrl-C. Call it first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl()
            os._exit(1)


#: Ends of pipes that tell another process of the end of this one, by being closed then.
_LIFELINES: WeakSet[IO[Any]] = WeakSet()


def add_lifeline(pipe: IO[Any]) -> None:
    """Lets who reads the pipe notice the end of this process.

    A child that this process forks later would hold the pipe open, so it gets another file there.
    """
    _LIFELINES.add(pipe)


def _drop_lifelines() -> None:
    for pipe in _LIFELINES:
        if not pipe.closed:
            # The number stays taken: closing the object in the child closes no other file.
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, pipe.fileno(), inheritable=False)
            os.close(nothing)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_drop_lifelines)


@contextmanager
def interrupts_later(for_children: bool = False) -> Iterator[None]:
    """Delays the signals that end a command until the end of the block.

    Args:
        for_children: whether processes that start in the block begin with these signals blocked,
            so that a Ctrl-C does not end them before die_with_parent().
    """
    delayed: list[int] = []

    def delay(number: int, frame: FrameType | None) -> None:
        delayed.append(number)

    handlers = {}
    if threading.current_thread() is threading.main_thread():
        # Any thread may receive a signal, so this thread's mask is not enough.
        handlers = {n: signal.getsignal(n) for n in ENDING if callable(signal.getsignal(n))}
    masks = hasattr(signal, "pthread_sigmask")  # not on Windows
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if masks else None
    try:
        for number in handlers:
            signal.signal(number, delay)
        if for_children and masks:
            # The tracker would start with the first child and unblock two signals for it.
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for delayed_number in delayed:
            signal.raise_signal(delayed_number)
