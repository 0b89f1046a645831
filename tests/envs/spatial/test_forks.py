"""Vector environments in a process that was forked from theirs."""

import os
import signal
import threading
import warnings
from collections.abc import Callable

from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.errors import ForkedError
from tests.envs.episodes import TOY


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


def test_a_child_forked_in_the_middle_of_a_step_gets_an_error():
    """The thread that steps is not there in the child, and what it holds stays held."""
    envs = SpatialVectorEnv(64, **(TOY | {"machine": "skylake-x-8n"}))
    observations, _ = envs.reset(seed=0)
    actions = observations["position_mask"].reshape(64, -1).argmax(1)
    over = threading.Event()

    def keep_stepping():
        # Masked tiles are exchanged for legal ones.
        while not over.is_set():
            envs.step(actions)

    def step_in_child():
        try:
            envs.step(actions)
        except ForkedError as error:
            return 3 if "make it anew" in str(error) else 1
        return 0

    stepping = threading.Thread(target=keep_stepping)
    stepping.start()
    statuses = []
    # Most forks come while the other thread steps without the interpreter's lock.
    while not any(statuses) and len(statuses) < 1000:
        statuses.append(in_child(step_in_child))
    over.set()
    stepping.join()
    assert statuses[-1] == 3
