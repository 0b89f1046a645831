"""Signals and worker processes: who takes a Ctrl-C, and when."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import multiprocessing
import signal
import time

from pmoss_env.processes import ENDING, interrupts_later

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    children = []
    for _ in range(2):
        with interrupts_later(for_children=True):
            children.append(context.Process(target=time.sleep, args=(600,)))
            children[-1].start()
    wanted = sum(1 << (number - 1) for number in ENDING)
    for child in children:
        with open(f"/proc/{child.pid}/status") as status:
            blocked = int(next(line for line in status if line.startswith("SigBlk")).split()[1], 16)
        print(blocked & wanted == wanted)
        child.kill()
    print(not signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_children_begin_with_the_ending_signals_blocked(tmp_path: Path) -> None:
    """The first child too: the standard library starts a process of its own before it."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["True"] * 3, done.stderr
