"""Checks an index of a user's library: random operations are held against a model.

The library runs in a process of its own, so that a crash or a deadlock there is an error here.
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

#: What can be asked for.
LEAST_OPERATIONS, MOST_THREADS = 1_000, 15
#: So long no operation may end before a warning says so, and before the check is killed (seconds).
_WARN_SECONDS, _SILENCE_SECONDS = 10.0, 60.0
#: Begins the lines that the child tells its parent; what else it prints is the library's.
_OURS = "pmoss-check "
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
    """Runs operations on an index of the library, of one thread and then of several at once.

    Args:
        path: of the library (native/include/pmoss/index.h).
        operations: of each thread; at least LEAST_OPERATIONS.
        threads: at once; 1 to MOST_THREADS.
        seed: of the operations.
        seconds: after so long the process is killed; earlier if no operation ends for a minute.
        progress: called with the number of operations done, and of all.

    Returns:
        What was done, a line each; the first one is the index's own name.

    Raises:
        PlatformError: a portable build, which serves no index.
        PluginError: no library; a wrong answer, which the message names; a crash; no end.
        ValueError: impossible numbers.
    """
    if operations < LEAST_OPERATIONS or not 1 <= threads <= MOST_THREADS:
        raise ValueError(
            f"operations = {operations}, threads = {threads}: there must be at least "
            f"{LEAST_OPERATIONS} operations, and 1 to {MOST_THREADS} threads"
        )
    library = register_plugin(path).removeprefix(PLUGIN)
    asked = json.dumps([library, operations, threads, seed])
    words = [sys.executable, "-m", __name__, str(os.getpid()), asked]
    # Not in a pipe, which somebody would have to read.
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=log, text=True, errors="replace"
        ) as child:
            watch = _Watch(child, seconds)
            try:
                answer = _listen(child, watch, progress)
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
    if "wrong" in answer:
        raise PluginError(answer["wrong"])
    told: list[str] = answer["told"]
    return told


class _Watch:
    """Kills a check that takes too long, or in which no operation ends any more.

    Attributes:
        reason: why it was killed; empty if it was not.
    """

    def __init__(self, child: subprocess.Popen[str], seconds: float) -> None:
        self.reason = ""
        self._child, self._seconds = child, seconds
        self._heard, self._end = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def heard(self, done: int, total: int) -> None:
        """Told of operations. What comes after them tells nothing."""
        self._heard = time.monotonic() if done < total else math.inf

    def end(self) -> None:
        """The check is over."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        end, warned = time.monotonic() + self._seconds, False
        while not self._end.wait(0.1):
            now = time.monotonic()
            if now > end:
                self.reason = f"the check was killed after {self._seconds:g} s"
            elif now - self._heard > _SILENCE_SECONDS:
                self.reason = f"no operation ended for {_SILENCE_SECONDS:g} s: the check was killed"
            if self.reason:
                self._child.kill()
                return
            if now - self._heard > _WARN_SECONDS and not warned:
                warned = True
                _log.warning(
                    "no operation has ended for %g s; the check is killed after %g s of silence",
                    _WARN_SECONDS,
                    _SILENCE_SECONDS,
                )


def _listen(
    child: subprocess.Popen[str], watch: _Watch, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """What the child answers at the end; empty if it died before."""
    assert child.stdout
    for line in child.stdout:
        if not line.startswith(_OURS):
            continue  # the library's own words
        with suppress(json.JSONDecodeError):
            told = json.loads(line.removeprefix(_OURS))
            if "done" not in told:
                return dict(told)
            watch.heard(*told["done"])
            progress(*told["done"])
    return {}


class _Teller:
    """Sends a line to the parent, of progress ten times a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, told: dict[str, object]) -> None:
        try:
            print(f"\n{_OURS}{json.dumps(told)}", flush=True)
        except OSError:
            # A library may have closed whatever it found open. Nothing else can be told.
            os._exit(PIPES_CLOSED)

    def progress(self, done: int, total: int) -> None:
        """Tells it, unless it has just been told."""
        if time.monotonic() >= self._next or done == total:
            self({"done": [done, total]})
            self._next = time.monotonic() + 0.1


def _main(parent: int, asked: str) -> None:
    die_with_parent(parent)
    library, operations, threads, seed = json.loads(asked)
    tell = _Teller()
    try:
        told = _native.check_plugin(
            library, operations=operations, threads=threads, seed=seed, progress=tell.progress
        )
        answer: dict[str, object] = {"told": told}
    except _native.IndexPluginError as error:
        answer = {"wrong": str(error)}
    except Exception as error:
        # Its own findings are errors of plugins, so this one comes out of the library.
        answer = {"wrong": f"plugin {library!r} has thrown an exception: {error}"}
    tell(answer)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
