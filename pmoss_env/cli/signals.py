"""Signals that end a command: it cleans up first, and its status names the signal."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from pmoss_env.processes import ENDING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: The received signals, in order.
_received: list[int] = []
#: Texts on how to resume after a signal; the last one is shown.
_hints = [
    "a command that keeps finished work (OUT.partial, or rows of --out) goes on when it is called "
    "again; train goes on from a checkpoint with --resume"
]


def end_like_ctrl_c() -> None:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt like Ctrl-C; keeps ignored signals."""
    command = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != command:  # a forked worker has nothing to clean up
            os._exit(128 + number)
        _received.append(number)
        raise KeyboardInterrupt

    for number in ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, stop)
    sys.unraisablehook = _raise_again


def _raise_again(lost: UnraisableHookArgs) -> None:
    """Raises an interrupt again that Python drops in a destructor or weak reference."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if not hasattr(signal, "setitimer"):  # Windows
        signal.raise_signal(signal.SIGINT)
        return
    # A system timer takes no lock, unlike a thread.
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def status() -> int | None:
    """The exit status for the first signal, as shells define it; None without a signal."""
    return 128 + _received[0] if _received else None


def set_resume_hint(text: str) -> None:
    """Sets the text on how to resume the command, for main()."""
    _hints.append(text)


def resume_hint() -> str:
    """The text on how to resume the command."""
    return _hints[-1]


def end_at_once() -> None:
    """Restores the default handlers of the signals; keeps ignored signals."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
    sys.unraisablehook = sys.__unraisablehook__
    for number in ENDING:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
