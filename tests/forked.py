"""A forked child of the tests' process."""

import os
import signal
import warnings
from collections.abc import Callable


def in_child(act: Callable[[], int]) -> int:
    """The exit status of a forked child: what ``act`` returns, or 1 if it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # by Python 3.12: there are threads
        child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            os._exit(act())
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
