"""Gives threads their affinity back when the tool that pinned them dies.

A program of its own that imports nothing of the package: ``python guardian.py PID``. It reads one
JSON object per line from its standard input, ``{"thread", "start", "mask"}``: what a thread's
affinity was before it was first pinned. When the pipe closes without a line ``"done"``, however the
tool ended, it restores them all, and threads that inherited a pin. It ends right after the tool.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TextIO


def start_of(process: int, thread: int) -> int:
    """When a thread started, in clock ticks since boot: tells it from a later one of its id.

    Raises OSError if it is gone.
    """
    text = Path(f"/proc/{process}/task/{thread}/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[19])


def restore(process: int, before: dict[int, tuple[int, list[int]]]) -> int:
    """Gives the threads of a process their affinity back.

    Args:
        process: its id.
        before: start time and affinity of each thread that was pinned.

    Returns:
        How many threads it changed. One that is gone, or whose id is another's now, is left alone;
        one that was not listed but has one of the pins inherited it, and gets the widest affinity.
    """
    changed = 0
    if not before:
        return changed
    widest = max((mask for _, mask in before.values()), key=len)
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return changed
    for thread in threads:
        try:
            start, mask = before.get(thread, (None, widest))
            now = os.sched_getaffinity(thread)
            if start is None and (len(now) > 1 or len(widest) == 1):
                continue  # not pinned by us
            if start is not None and start_of(process, thread) != start:
                continue
            if now != set(mask):
                os.sched_setaffinity(thread, mask)
                changed += 1
        except OSError:
            continue  # ended meanwhile
    return changed


def watch(process: int, lines: TextIO) -> None:
    """Waits for the end of the pipe, then restores; does nothing after a line "done"."""
    before: dict[int, tuple[int, list[int]]] = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the tool died in the middle of a line
        if entry == "done":
            return
        before.setdefault(entry["thread"], (entry["start"], entry["mask"]))
    restore(process, before)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(int(sys.argv[1]), sys.stdin)
