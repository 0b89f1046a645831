"""Restores the affinity of threads when the process that pinned them dies.

A program without imports of the package: ``python guardian.py PID``. It reads the entries of a
``Record`` from its standard input, one JSON object per line. When the pipe closes without a line
``"done"``, it restores the pinned threads, and frees those that inherited a pin. Then it ends.
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
    """Start time of a thread in clock ticks since boot, which tells apart threads with the same id.

    Raises OSError if it has ended.
    """
    # The kernel cuts a thread's name at a byte, which may be within a character.
    text = Path(f"/proc/{process}/task/{thread}/stat").read_text(errors="replace")
    return int(text[text.rindex(")") + 2 :].split()[19])


def mask_of(process: int, thread: int) -> list[int]:
    """The CPUs that a thread may run on, ascending, including offline ones.

    os.sched_getaffinity omits these, and setting its result would forbid them.
    Raises OSError if the thread has ended.
    """
    text = Path(f"/proc/{process}/task/{thread}/status").read_text(errors="replace")
    _, _, rest = text.partition("\nCpus_allowed_list:")
    cpus: list[int] = []
    for part in rest.split("\n", 1)[0].split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


@dataclass
class Record:
    """The information to undo all pins of a process.

    Attributes:
        early: start time of every thread that existed before the first pin: it has inherited none.
        masks: start time and old affinity of each pinned thread.
        cpus: of all pins.
        binds: whether the program bound one of the early threads to a CPU itself. Then a pin of a
            later thread may be the program's own, and stays.
    """

    early: dict[int, int] = field(default_factory=dict)
    masks: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    cpus: set[int] = field(default_factory=set)
    binds: bool = False

    def note(self, entry: dict[str, Any]) -> None:
        """Adds ``{"early": [[thread, start], ...], "binds"}``, or that of a pinned thread."""
        if "early" in entry:
            self.binds = entry["binds"]
            self.early.update(map(tuple, entry["early"]))
        else:
            if self.masks.get(entry["thread"], (None,))[0] != entry["start"]:
                self.masks[entry["thread"]] = (entry["start"], entry["mask"])
            self.cpus.add(entry["cpu"])

    def inherited(self, process: int, thread: int) -> bool:
        """Whether a thread has a pin only because its parent thread had one.

        Raises OSError if it has ended.
        """
        start = start_of(process, thread)
        if self.binds:
            return False
        if thread in self.masks and self.masks[thread][0] == start:
            return False
        if self.early.get(thread) == start:
            return False
        now = mask_of(process, thread)
        return len(now) == 1 and now[0] in self.cpus


def restore(process: int, record: Record) -> int:
    """Restores the affinity of the threads of a process.

    Returns:
        The number of changed threads. Ended threads, and threads that reuse an id, are skipped.
        Threads that inherited a pin get the widest affinity of a pinned thread.
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
        except (OSError, ValueError):
            continue  # it has ended, or the kernel says what this does not read
    return changed


def watch(process: int, lines: TextIO) -> None:
    """Waits for the end of the pipe, then restores; does nothing after a line "done"."""
    record = Record()
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # an incomplete line
        if entry == "done":
            return
        record.note(entry)
    restore(process, record)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(int(sys.argv[1]), sys.stdin)
