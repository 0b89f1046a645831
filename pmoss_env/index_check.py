"""Checks an index of a user's library: random operations are held against a model.

The library runs in a process of its own, so that a crash or a deadlock there is an error here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from pmoss_env import _native
from pmoss_env.errors import PluginError
from pmoss_env.indexes import PLUGIN, register_plugin
from pmoss_env.processes import die_with_parent


def check_index(
    path: str | Path,
    *,
    operations: int = 200_000,
    threads: int = 4,
    seed: int = 0,
    seconds: float = 600.0,
) -> list[str]:
    """Runs operations on an index of the library, of one thread and then of several at once.

    Args:
        path: of the library (native/include/pmoss/index.h).
        operations: of each thread; at least 1,000.
        threads: at once; 1 to 15.
        seed: of the operations.
        seconds: after so long the process is killed.

    Returns:
        What was done, a line each; the first one is the index's own name.

    Raises:
        PlatformError: a portable build, which serves no index.
        PluginError: no library; a wrong answer, which the message names; a crash; no end.
        ValueError: impossible numbers.
    """
    library = register_plugin(path).removeprefix(PLUGIN)
    asked = json.dumps([library, operations, threads, seed])
    words = [sys.executable, "-X", "faulthandler", "-m", __name__, str(os.getpid()), asked]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise PluginError(
            f"plugin {library!r}: the check was killed after {seconds:g} s: a deadlock, or ask for "
            f"fewer than {operations} operations"
        ) from error
    # What the library printed last, before Python's own report of a crash.
    said = done.stderr.partition("Fatal Python error")[0].splitlines()
    log = f"; it said: {said[-1]}" if said else ""
    if done.returncode < 0:
        raise PluginError(
            f"plugin {library!r} ended the process by signal {-done.returncode} "
            f"({signal.strsignal(-done.returncode)}){log}"
        )
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise PluginError(
            f"plugin {library!r} ended the process with status {done.returncode}{log}"
        ) from error
    if "wrong" in answer:
        raise PluginError(answer["wrong"])
    if "refused" in answer:
        raise ValueError(answer["refused"])
    told: list[str] = answer["told"]
    return told


def _main(parent: int, asked: str) -> None:
    die_with_parent(parent)
    library, operations, threads, seed = json.loads(asked)
    try:
        told = _native.check_plugin(library, operations=operations, threads=threads, seed=seed)
        answer: dict[str, object] = {"told": told}
    except _native.IndexPluginError as error:
        answer = {"wrong": str(error)}
    except (ValueError, TypeError) as error:
        answer = {"refused": str(error)}
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
