"""Worker processes that never outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def die_with_parent(parent: int) -> None:
    """Called first in a worker process: it dies with its parent and leaves Ctrl-C to it.

    Args:
        parent: process id of the parent, taken before the worker was started.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)
