"""Checks a user-defined index: random operations are compared with a model.

The library runs in a process of its own, so that its crash or deadlock is only an error.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pmoss_env import _native
from pmoss_env.backends.child_process import Child, Wording
from pmoss_env.backends.frames import PIPES_CLOSED, read_frame, write_frame
from pmoss_env.errors import BackendError, PluginError
from pmoss_env.indexes import PLUGIN, register_plugin
from pmoss_env.processes import die_with_parent

#: Limits of the arguments.
MIN_OPERATIONS, MAX_THREADS = 1_000, 15
#: Seconds without a finished operation before a warning, and before the check is killed.
_WARN_SECONDS, _SILENCE_SECONDS = 10.0, 60.0


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
        operations: per thread; at least MIN_OPERATIONS.
        threads: 1 to MAX_THREADS.
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
    arguments = {"operations": operations, "threads": threads, "seed": seed}
    advice = f": a deadlock, or ask for fewer than {operations} operations"
    end = time.monotonic() + seconds

    def report(done: list[int]) -> None:
        if time.monotonic() > end:
            raise PluginError(f"plugin {library!r}: killed after {seconds:g} s{advice}")
        progress(*done)

    child = Child(
        [sys.executable, "-m", __name__, str(os.getpid())],
        Wording("the check", "", warn_seconds=_WARN_SECONDS),
        environment=os.environ,
        grouped=True,  # processes that the library starts end with the check
    )
    with closing(child):
        try:
            request = {"library": library, "arguments": arguments}
            answer = child.ask(request, min(_SILENCE_SECONDS, seconds), {"done": report})
            if "total" in answer:  # what is compared at the end may take its time
                progress(answer["total"], answer["total"])
                answer = child.receive(end - time.monotonic())
        except BackendError as error:
            reason = f"{error.args[0]}{advice if 'silent' in error.args[0] else ''}"
            said = f"; it said: {error.log[-1]}" if error.log else ""
            raise PluginError(f"plugin {library!r}: {reason}{said}") from error
    if "error" in answer:
        raise PluginError(answer["error"])
    summary: list[str] = answer["summary"]
    return summary


def _signals() -> set[str]:
    """The signals that are blocked, ignored or caught, with that word; nothing if not known."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return set()
    said = set()
    for line in lines:
        kind, _, mask = line.partition(":")
        if word := {"SigBlk": "blocked", "SigIgn": "ignored", "SigCgt": "caught"}.get(kind):
            bits = int(mask, 16)
            # Those of the C library itself are not valid.
            numbers = [n for n in signal.valid_signals() if bits >> (n - 1) & 1]
            said |= {f"{getattr(number, 'name', int(number))} {word}" for number in numbers}
    return said


def _main(parent: int) -> None:
    """The child: checks a library, and sends its progress at most ten times a second."""
    die_with_parent(parent)
    # All other output is the library's.
    replies = os.fdopen(os.dup(1), "wb")
    printed = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives
    os.dup2(printed.fileno(), 1)
    request = read_frame(sys.stdin.buffer)
    assert request is not None
    own_process = os.getpid()
    library, next_report, ended = request["library"], 0.0, False

    def send(message: Mapping[str, Any]) -> None:
        if os.getpid() != own_process:
            os._exit(1)  # The library has forked: its copy must not go on with the check.
        try:
            write_frame(replies, message)
        except OSError:
            # The library may have closed the pipe; only the status can say so.
            os._exit(PIPES_CLOSED)

    def report(done: int, total: int) -> None:
        nonlocal next_report, ended
        if done == total and not ended:
            ended = True
            send({"total": total})
        elif done < total and time.monotonic() >= next_report:
            send({"done": [done, total]})
            next_report = time.monotonic() + 0.1

    handled = _signals()
    try:
        summary = _native.check_plugin(library, **request["arguments"], progress=report)
        ctypes.CDLL(None).fflush(None)  # what the library has printed into a buffer
        printed.seek(0)
        words = printed.readline(200).decode(errors="replace").strip()
        answer: dict[str, object] = {"summary": summary}
        if changed := handled ^ _signals():
            names = ", ".join(sorted(changed))
            answer = {
                "error": f"plugin {library!r}: the library changes what is done with signals "
                f"({names}): of programs that use it, Ctrl-C and kill would no longer do their work"
            }
        elif printed.tell():
            answer = {
                "error": f"plugin {library!r}: the library writes to the standard output, where "
                f"results of a program belong: {words!r}"
            }
    except _native.IndexPluginError as error:
        answer = {"error": str(error)}
    except Exception as error:
        # Wrong answers are IndexPluginErrors, so this error comes from the library.
        answer = {"error": f"plugin {library!r} has thrown an exception: {error}"}
    send(answer)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
