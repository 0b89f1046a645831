"""Checks an index of a user's library: random operations are held against a model.

The library runs in a process of its own, so that a crash or a deadlock there is an error here.
"""

from __future__ import annotations

import json
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
from pmoss_env.errors import PluginError
from pmoss_env.indexes import PLUGIN, register_plugin
from pmoss_env.processes import die_with_parent

#: Begins the lines that the child tells its parent; what else it prints is the library's.
_OURS = "pmoss-check "


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
        operations: of each thread; at least 1,000.
        threads: at once; 1 to 15.
        seed: of the operations.
        seconds: after so long the process is killed.
        progress: called with the number of operations done, and of all.

    Returns:
        What was done, a line each; the first one is the index's own name.

    Raises:
        PlatformError: a portable build, which serves no index.
        PluginError: no library; a wrong answer, which the message names; a crash; no end.
        ValueError: impossible numbers.
    """
    library = register_plugin(path).removeprefix(PLUGIN)
    asked = json.dumps([library, operations, threads, seed])
    words = [sys.executable, "-m", __name__, str(os.getpid()), asked]
    # Not in a pipe, which somebody would have to read.
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=log, text=True, errors="replace"
        ) as child:
            timer = threading.Timer(seconds, child.kill)
            timer.start()
            try:
                answer = _listen(child, progress)
                child.wait()
            finally:
                late = not timer.is_alive()
                timer.cancel()
                child.kill()
        log.seek(0)
        lines = log.read().splitlines()
    status = child.returncode
    if late and status < 0:
        raise PluginError(
            f"plugin {library!r}: the check was killed after {seconds:g} s: a deadlock, or ask for "
            f"fewer than {operations} operations"
        )
    if status < 0 or not answer:
        how = f"with status {status}: has it called exit()?"
        if status < 0:
            how = f"by signal {-status} ({signal.strsignal(-status)})"
        said = f"; it said: {lines[-1]}" if lines else ""
        raise PluginError(f"plugin {library!r} ended the process {how}{said}")
    if "wrong" in answer:
        raise PluginError(answer["wrong"])
    if "refused" in answer:
        raise ValueError(answer["refused"])
    told: list[str] = answer["told"]
    return told


def _listen(child: subprocess.Popen[str], progress: Callable[[int, int], None]) -> dict[str, Any]:
    """What the child answers at the end; empty if it died before."""
    assert child.stdout
    for line in child.stdout:
        if not line.startswith(_OURS):
            continue  # the library's own words
        with suppress(json.JSONDecodeError):
            told = json.loads(line.removeprefix(_OURS))
            if "done" not in told:
                return dict(told)
            progress(*told["done"])
    return {}


class _Teller:
    """Sends a line to the parent, of progress ten times a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, told: dict[str, object]) -> None:
        print(f"\n{_OURS}{json.dumps(told)}", flush=True)

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
    except (ValueError, TypeError) as error:
        answer = {"refused": str(error)}
    tell(answer)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
