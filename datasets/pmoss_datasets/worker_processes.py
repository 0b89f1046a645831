"""Tasks in worker processes of this host, one pipe to each and no lock between them.

The pools of the standard library share locks with threads of their own. A Ctrl-C that arrives
while the main thread takes such a lock leaves it taken, and the command waits for ever.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from pmoss_env.errors import PmossError, TaskError
from pmoss_env.processes import die_with_parent, interrupts_later

#: Workers that one task may take down before it is blamed.
_MOST_LOSSES = 3

T = TypeVar("T")
R = TypeVar("R")


def in_processes(
    make_work: Callable[[], Any], tasks: Sequence[T], processes: int
) -> Generator[tuple[T, Any], None, None]:
    """Does the tasks and gives (task, result) of each; see ``run_tasks``.

    When it is left early, running tasks are lost and their processes are killed.
    """
    waiting = iter(tasks)
    workers: dict[Connection, BaseProcess] = {}
    busy: dict[Connection, T] = {}

    def kill() -> None:
        with interrupts_later():
            for worker in workers.values():
                worker.kill()

    # In case this generator is never closed: Python waits for its processes when it ends.
    atexit.register(kill)
    try:
        for task in islice(waiting, processes):
            with interrupts_later(for_children=True):
                pipe, worker = _start(make_work)
                workers[pipe] = worker
            busy[pipe] = task
            _send(pipe, worker, task)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                result = _receive(ready, workers[ready])
                done = busy.pop(ready)
                for task in islice(waiting, 1):
                    busy[ready] = task
                    _send(ready, workers[ready], task)
                yield done, result
        for pipe in workers:  # each closes its work and ends
            pipe.close()
    except BaseException:
        kill()
        raise
    finally:
        for worker in workers.values():
            worker.join()
        atexit.unregister(kill)


def _start(make_work: Callable[[], Any]) -> tuple[Connection, BaseProcess]:
    # A forked copy of a process with threads (torch, BLAS) may hang.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_serve, args=(theirs, make_work, os.getpid()))
    worker.start()
    theirs.close()
    return ours, worker


def _send(pipe: Connection, worker: BaseProcess, task: Any) -> None:
    try:
        pipe.send(task)
    except OSError as error:
        raise _lost(worker) from error


def _receive(pipe: Connection, worker: BaseProcess) -> Any:
    try:
        return receive(pipe)
    except WorkerEnded as error:
        raise _lost(worker) from error


def _lost(worker: BaseProcess) -> PmossError:
    worker.join(10)
    code = worker.exitcode or 0
    how = signal.Signals(-code).name if code < 0 else f"it ended with status {code}"
    return PmossError(f"a worker process was killed: too little memory? ({how})")


def receive(pipe: Connection) -> Any:
    """The result that a worker sends; raises what its task raised, or WorkerEnded."""
    try:
        good, value = pipe.recv()
    except (EOFError, OSError) as error:
        raise WorkerEnded from error
    if not good:
        raise value
    return value


class WorkerEnded(Exception):
    """A worker has closed its connection before its task was done."""


class Losses:
    """Counts the workers that ended while they did a task, and their nodes went on."""

    def __init__(self) -> None:
        # By identity: tasks need not be hashable.
        self._ended: Counter[int] = Counter()
        self._to_blame: list[str] = []

    def add(self, task: Any, reason: object) -> bool:
        """Counts one; says whether the task is to be tried again."""
        self._ended[id(task)] += 1
        if self._ended[id(task)] < _MOST_LOSSES:
            return True
        self._to_blame.append(f"task {task!r} has ended {_MOST_LOSSES} workers: {reason}")
        return False

    def check(self) -> None:
        """Raises TaskError if a task is not to be tried again."""
        if self._to_blame:
            raise TaskError("; ".join(self._to_blame))


def warn_of_loss(worker: str, left: int, reason: str) -> None:
    """Says that a worker was lost, and that nothing else was."""
    warnings.warn(
        f"{worker} was lost: its task goes to another, {left} are left ({reason})",
        RuntimeWarning,
        stacklevel=3,
    )


def _serve(pipe: Connection, make_work: Callable[[], Any], parent: int) -> None:
    """A worker process, which ends with its parent."""
    die_with_parent(parent)
    serve(pipe, make_work)


def serve(pipe: Connection, make_work: Callable[[], Any]) -> None:
    """Does the tasks that come, until the other side closes the pipe."""
    work = None
    try:
        while True:
            task = pipe.recv()
            try:
                if work is None:
                    work = make_work()
                pipe.send((True, work(task)))
            except Exception as error:
                pipe.send((False, _portable(error)))
    except (EOFError, OSError):
        pass
    finally:
        if work is not None:
            work.close()


def _portable(error: Exception) -> Exception:
    """An error that arrives in another process, with a note of where it arose."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
