"""Signals that end a command: what it holds is put back first, and its status names the signal."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from pmoss_env.processes import ENDING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: The signals that came, in their order.
_came: list[int] = []
#: What goes on after a signal, in the order of telling; the last one counts.
_ways_on = [
    "a command that keeps finished work (OUT.partial, or rows of --out) goes on when it is called "
    "again; train goes on from a checkpoint with --resume"
]


def end_like_ctrl_c() -> None:
    """Lets SIGTERM and SIGHUP end the command as Ctrl-C does; signals that are ignored stay so."""
    command = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != command:  # a forked worker has nothing of its own to clean up
            os._exit(128 + number)
        _came.append(number)
        raise KeyboardInterrupt

    for number in ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, stop)
    sys.unraisablehook = _raise_again


def _raise_again(lost: UnraisableHookArgs) -> None:
    """Python drops what is raised in a destructor or a weak reference's callback."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if not hasattr(signal, "setitimer"):  # Windows
        signal.raise_signal(signal.SIGINT)
        return
    # A timer of the system takes no lock, as a thread would.
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def status() -> int | None:
    """The exit status by which shells know the first signal that came; None if none did."""
    return 128 + _came[0] if _came else None


def go_on_by(words: str) -> None:
    """Says how an interrupted command goes on; main() prints it at the end."""
    _ways_on.append(words)


def way_on() -> str:
    """How the interrupted command goes on."""
    return _ways_on[-1]


def end_at_once() -> None:
    """Gives the signals that end a command back to the system; those that are ignored stay so."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
    sys.unraisablehook = sys.__unraisablehook__
    for number in ENDING:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
