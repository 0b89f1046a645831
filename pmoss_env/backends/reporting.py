"""Runs long native work with reports of progress, so that it can be interrupted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from pmoss_env.errors import BackendError
from pmoss_env.processes import NATIVE_WORK

#: Seconds of work before the first report.
REPORT_AFTER = 2.0
#: Seconds between two reports.
REPORT_EVERY = 0.5

T = TypeVar("T")

_log = logging.getLogger(__name__)


class LoggedProgress:
    """Logs the progress of long work, for callers without a screen.

    Args:
        every: seconds between two lines.
    """

    def __init__(self, every: float = 10.0) -> None:
        self._every = every
        self._next = 0.0

    def __call__(self, what: str, seconds: float) -> None:
        """Writes a line at the first call of each work and then at intervals."""
        if seconds < self._next - self._every:
            self._next = 0.0  # other work has begun
        if seconds >= self._next:
            _log.warning("%s: %.0f s so far", what, seconds)
            self._next = seconds + self._every


def with_progress(
    what: str, work: Callable[[], T], progress: Callable[[str, float], None] | None
) -> T:
    """Runs native work in a thread, with reports of progress; Ctrl-C interrupts it.

    Args:
        work: releases the GIL.
        progress: called every REPORT_EVERY seconds with (what, seconds so far), from REPORT_AFTER
            seconds on.

    Raises:
        BackendError: the work failed.
    """
    results: list[T] = []
    errors: list[Exception] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            errors.append(error)
        finally:
            done.set()

    began = time.monotonic()
    threading.Thread(target=run, name=NATIVE_WORK, daemon=True).start()
    while not done.wait(REPORT_EVERY):
        seconds = time.monotonic() - began
        if progress is not None and seconds > REPORT_AFTER:
            progress(what, seconds)
    if errors:
        raise BackendError(f"{what}: {errors[0]}") from errors[0]
    return results[0]
