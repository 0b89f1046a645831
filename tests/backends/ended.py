"""Whether processes and threads have ended."""

import os
import time


def is_running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(process: int) -> bool:
    for _ in range(1200):
        if not is_running(process):
            return True
        time.sleep(0.05)
    return False


def threads_of_process() -> int:
    return len(os.listdir("/proc/self/task"))
