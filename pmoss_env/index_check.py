"""Checks a user-defined index: random operations are compared with a model.

The library runs in a process of its own, so that its crash or deadlock is only an error.
"""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pmoss_env import _native
from pmoss_env.backends.frames import PIPES_CLOSED
from pmoss_env.errors import PluginError
from pmoss_env.indexes import PLUGIN, register_plugin
from pmoss_env.processes import die_with_parent

_log = logging.getLogger(__name__)

#: Limits of the arguments.
MIN_OPERATIONS, MAX_THREADS = 1_000, 15
#: Seconds without a finished operation before a warning, and before the check is killed.
_WARN_SECONDS, _SILENCE_SECONDS = 10.0, 60.0
#: Prefix of the lines that the child sends; all other output is the library's.
_PREFIX = "pmoss-check "
_CAUSES = {0: "called exit()", PIPES_CLOSED: "closed files that are not its own"}


def check_index(
    path: str | Path,
    *,
    operations: int = 200_000,
    threads: int = 4,
    seed: int = 0,
    seconds: float = 600.0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[str]:
    """Runs operations on an index of the library, first in one thread, then in several.

    Args:
        path: of the library (native/include/pmoss/index.h).
        operations: per thread; at least MIN_OPERATIONS.
        threads: 1 to MAX_THREADS.
        seed: of the operations.
        seconds: time limit of the check; it also ends if no operation finishes for a minute.
        progress: called with the number of finished operations, and of all.

    Returns:
        The name of the index, and a line for each part of the check.

    Raises:
        PlatformError: a portable build, which serves no index.
        PluginError: no library, a wrong answer, a crash or a timeout.
        ValueError: numbers outside of the limits.
    """
    if operations < MIN_OPERATIONS or not 1 <= threads <= MAX_THREADS:
        raise ValueError(
            f"operations = {operations}, threads = {threads}: there must be at least "
            f"{MIN_OPERATIONS} operations, and 1 to {MAX_THREADS} threads"
        )
    library = register_plugin(path).removeprefix(PLUGIN)
    arguments = json.dumps([library, operations, threads, seed])
    words = [sys.executable, "-m", __name__, str(os.getpid()), arguments]
    # A file, because a pipe would fill up without a reader.
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=log, text=True, errors="replace"
        ) as child:
            watch = _Watch(child, seconds)
            try:
                answer = _read_messages(child, watch, progress)
                child.wait()
            finally:
                watch.end()
                child.kill()
        log.seek(0)
        lines = log.read().splitlines()
    status = child.returncode
    if watch.reason and not answer:
        raise PluginError(
            f"plugin {library!r}: {watch.reason}: a deadlock, or ask for fewer than {operations} "
            "operations"
        )
    if status < 0 or not answer:
        how = f"with status {status}"
        if status in _CAUSES:
            how += f": has it {_CAUSES[status]}?"
        if status < 0:
            how = f"by signal {-status} ({signal.strsignal(-status)})"
        said = f"; it said: {lines[-1]}" if lines else ""
        raise PluginError(f"plugin {library!r} ended the process {how}{said}")
    if "error" in answer:
        raise PluginError(answer["error"])
    summary: list[str] = answer["summary"]
    return summary


class _Watch:
    """Kills a check that takes too long, or in which no operation finishes.

    Attributes:
        reason: why it was killed; empty if it was not.
    """

    def __init__(self, child: subprocess.Popen[str], seconds: float) -> None:
        self.reason = ""
        self._child, self._seconds = child, seconds
        self._last_report, self._end = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def report(self, done: int, total: int) -> None:
        """Takes note of finished operations; after the last one there is no time limit."""
        self._last_report = time.monotonic() if done < total else math.inf

    def end(self) -> None:
        """Ends the watch."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        end, warned = time.monotonic() + self._seconds, False
        while not self._end.wait(0.1):
            now = time.monotonic()
            if now > end:
                self.reason = f"the check was killed after {self._seconds:g} s"
            elif now - self._last_report > _SILENCE_SECONDS:
                self.reason = f"no operation ended for {_SILENCE_SECONDS:g} s: the check was killed"
            if self.reason:
                self._child.kill()
                return
            if now - self._last_report > _WARN_SECONDS and not warned:
                warned = True
                _log.warning(
                    "no operation has ended for %g s; the check is killed after %g s of silence",
                    _WARN_SECONDS,
                    _SILENCE_SECONDS,
                )


def _read_messages(
    child: subprocess.Popen[str], watch: _Watch, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """The last message of the child; empty if it died before."""
    assert child.stdout
    for line in child.stdout:
        if not line.startswith(_PREFIX):
            continue  # output of the library
        with suppress(json.JSONDecodeError):
            message = json.loads(line.removeprefix(_PREFIX))
            if "done" not in message:
                return dict(message)
            watch.report(*message["done"])
            progress(*message["done"])
    return {}


class _Sender:
    """Sends messages to the parent; progress at most ten times a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, message: dict[str, object]) -> None:
        try:
            print(f"\n{_PREFIX}{json.dumps(message)}", flush=True)
        except OSError:
            # The library may have closed the pipe; only the status can say so.
            os._exit(PIPES_CLOSED)

    def progress(self, done: int, total: int) -> None:
        """Sends the progress, unless the last report is recent."""
        if time.monotonic() >= self._next or done == total:
            self({"done": [done, total]})
            self._next = time.monotonic() + 0.1


def _main(parent: int, arguments: str) -> None:
    die_with_parent(parent)
    library, operations, threads, seed = json.loads(arguments)
    send = _Sender()
    try:
        summary = _native.check_plugin(
            library, operations=operations, threads=threads, seed=seed, progress=send.progress
        )
        answer: dict[str, object] = {"summary": summary}
    except _native.IndexPluginError as error:
        answer = {"error": str(error)}
    except Exception as error:
        # Wrong answers are IndexPluginErrors, so this error comes from the library.
        answer = {"error": f"plugin {library!r} has thrown an exception: {error}"}
    send(answer)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
