"""Worker processes that never outlive their parent, and the signals that end a command."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

#: What ends a command: Ctrl-C, `kill`, and a terminal that closes.
ENDING = (
    signal.SIGINT,
    signal.SIGTERM,
    *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []),
)


def die_with_parent(parent: int) -> None:
    """Called first in a worker process: it dies with its parent and leaves Ctrl-C to it.

    Args:
        parent: process id of the parent, taken before the worker was started.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)


def give_way() -> None:
    """Lets this process run only when nothing else does."""
    if hasattr(os, "setpriority"):  # not on Windows
        os.setpriority(os.PRIO_PROCESS, 0, 19)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def idle_command(module: str, *words: object) -> list[str]:
    """The command that runs a module as an idle process, which dies with this one.

    It is bound to its parent before it gives way and imports anything: who is idle may not get to
    run for minutes.

    Args:
        module: by its dotted name.
        words: its arguments.
    """
    # Without -P the modules beside this file would stand for those of Python.
    return [sys.executable, "-P", __file__, str(os.getpid()), module, *map(str, words)]


@contextmanager
def interrupts_later(for_children: bool = False) -> Iterator[None]:
    """Holds the signals that end a command back, until the end of the block.

    Args:
        for_children: processes that are started in the block begin with these signals blocked. So
            none of them dies of a Ctrl-C before it can leave that to its parent.
    """
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)

    handlers = {}
    if threading.current_thread() is threading.main_thread():
        # Any thread of this process may take a signal: the mask of this one is not enough.
        handlers = {n: signal.getsignal(n) for n in ENDING if callable(signal.getsignal(n))}
    masks = hasattr(signal, "pthread_sigmask")  # not on Windows
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if masks else None
    try:
        for number in handlers:
            signal.signal(number, hold)
        if for_children and masks:
            # Started with the first child it would unblock two of the signals, for that child too.
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for came in held:
            signal.raise_signal(came)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    give_way()
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
