import os
import signal
import threading
import warnings

from pmoss_env.backends.process_lock import ProcessLock


def test_a_forked_child_does_not_wait_for_its_parents_threads():
    lock = ProcessLock()
    held, over = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # by Python 3.12: there are threads
        child = os.fork()
    if child == 0:
        signal.alarm(120)
        with lock:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    over.set()
    thread.join()
    assert status == 0
