"""Gives threads their affinity back when the tool that pinned them dies.

A program of its own that imports nothing of the package: ``python guardian.py PID``. It reads one
JSON object per line from its standard input, what a ``Record`` notes. When the pipe closes without
a line ``"done"``, it restores the threads that were pinned. It also frees those that inherited a
pin. It ends right after the tool.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO


def start_of(process: int, thread: int) -> int:
    """When a thread started, in clock ticks since boot: distinguishes threads that reuse an id.

    Raises OSError if it is gone.
    """
    text = Path(f"/proc/{process}/task/{thread}/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[19])


def mask_of(process: int, thread: int) -> list[int]:
    """The CPUs that a thread may run on, ascending: also those that are offline now.

    os.sched_getaffinity leaves these out, and what it returned would forbid them for good.
    Raises OSError if the thread is gone.
    """
    text = Path(f"/proc/{process}/task/{thread}/status").read_text()
    _, _, rest = text.partition("\nCpus_allowed_list:")
    cpus: list[int] = []
    for part in rest.split("\n", 1)[0].split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


@dataclass
class Record:
    """What must be known to undo all pins of a process.

    Attributes:
        early: start time of every thread that was there before the first pin: whatever its
            affinity, it has not inherited it.
        masks: start time and affinity, before it was pinned, of each pinned thread.
        cpus: those that threads were pinned to.
    """

    early: dict[int, int] = field(default_factory=dict)
    masks: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    cpus: set[int] = field(default_factory=set)

    def note(self, entry: dict[str, Any]) -> None:
        """Adds ``{"early": [[thread, start], ...]}`` or ``{"thread", "start", "mask", "cpu"}``."""
        if "early" in entry:
            self.early.update(map(tuple, entry["early"]))
        else:
            if self.masks.get(entry["thread"], (None,))[0] != entry["start"]:
                self.masks[entry["thread"]] = (entry["start"], entry["mask"])
            self.cpus.add(entry["cpu"])

    def inherited(self, process: int, thread: int) -> bool:
        """Whether a thread has a pin only because the thread that started it had one.

        Raises OSError if it is gone.
        """
        start = start_of(process, thread)
        if thread in self.masks and self.masks[thread][0] == start:
            return False
        if self.early.get(thread) == start:
            return False
        now = mask_of(process, thread)
        return len(now) == 1 and now[0] in self.cpus


def restore(process: int, record: Record) -> int:
    """Gives the threads of a process their affinity back.

    Args:
        process: its id.
        record: of its pins.

    Returns:
        How many threads it changed. One that is gone, or whose id is another's now, is left alone;
        one that inherited a pin gets the widest affinity that a pinned thread had.
    """
    changed = 0
    if not record.masks:
        return changed
    widest = max((mask for _, mask in record.masks.values()), key=len)
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return changed
    for thread in threads:
        try:
            mask = widest
            if not record.inherited(process, thread):
                start, mask = record.masks.get(thread, (None, widest))
                if start != start_of(process, thread):
                    continue  # never pinned
            if mask_of(process, thread) != mask:
                os.sched_setaffinity(thread, mask)
                changed += 1
        except OSError:
            continue  # ended meanwhile
    return changed


def watch(process: int, lines: TextIO) -> None:
    """Waits for the end of the pipe, then restores; does nothing after a line "done"."""
    record = Record()
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the tool died in the middle of a line
        if entry == "done":
            return
        record.note(entry)
    restore(process, record)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(int(sys.argv[1]), sys.stdin)
