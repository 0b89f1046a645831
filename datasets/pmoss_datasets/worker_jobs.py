"""Tasks in jobs of a Slurm cluster, or of this host, that submitit starts.

Each job is a worker. It connects to this process, as a worker process does through its pipe, and
gets one task after the other. A job that ends early leaves its task to others.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    answer_challenge,
    deliver_challenge,
    wait,
)
from pathlib import Path
from typing import Any, TypeVar

from pmoss_datasets.worker_processes import (
    Losses,
    WorkerEnded,
    receive,
    serve,
    warn_of_loss,
)
from pmoss_env.errors import BackendError, DescriptionError, WorkersLostError
from pmoss_env.extras import require

T = TypeVar("T")

#: Where the jobs run: by Slurm, or on this host, which is how to try a study before.
CLUSTERS = ("slurm", "local")
#: Folder of submitit's files, below the current one: every node has to see it.
FOLDER = Path("runs/jobs")
#: Limit of a job in minutes where SBATCH_TIMELIMIT names none.
_MINUTES = 24 * 60
#: Seconds between two looks at jobs that say nothing.
LOOK = 2.0
#: Jobs that may end before they connect: then something is wrong with all of them.
_MOST_DEAD = 3


class _Jobs:
    """The jobs of one call."""

    def __init__(
        self, worker: Callable[[], None], cluster: str, jobs: int, exclusive: bool
    ) -> None:
        import submitit

        FOLDER.mkdir(parents=True, exist_ok=True)
        # For this user alone: it holds the key.
        self._folder = Path(tempfile.mkdtemp(prefix="tasks-", dir=FOLDER)).absolute()
        self._worker = worker
        self._executor = submitit.AutoExecutor(folder=self._folder, cluster=cluster)
        self._executor.update_parameters(name="pmoss", timeout_min=_MINUTES, cpus_per_task=1)
        self._executor.update_parameters(slurm_array_parallelism=jobs)
        if exclusive:
            self._executor.update_parameters(slurm_exclusive=True)
        self._jobs: list[Any] = []

    def start(self, count: int) -> None:
        """Submits jobs, on Slurm as one array."""
        if count < 1:
            return
        with self._executor.batch():
            self._jobs += [self._executor.submit(self._worker) for _ in range(count)]

    def living(self) -> int:
        """Number of jobs that wait or run."""
        return sum(not job.done() for job in self._jobs)

    def dead(self) -> int:
        """Number of jobs that have ended."""
        return len(self._jobs) - self.living()

    def last_words(self) -> str:
        """The last line that one of the jobs wrote."""
        written = "\n".join(job.stderr() or "" for job in self._jobs)
        return (written.strip() or "it left no message").splitlines()[-1]

    def end(self) -> None:
        """Ends all jobs, those that wait included, and removes their files."""
        # Their connections are closed: a worker without a task ends by itself.
        end = time.monotonic() + LOOK
        while self.living() and time.monotonic() < end:
            time.sleep(LOOK / 20)
        for job in self._jobs:
            if not job.done():
                job.cancel(check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


def _work(address: tuple[str, int], key: bytes, make_work: Callable[[], Any]) -> None:
    """What a job does: it connects, and does the tasks that come until that is closed."""
    serve(Client(address, authkey=key), make_work)


def in_jobs(
    make_work: Callable[[], Any],
    tasks: Sequence[T],
    jobs: int,
    cluster: str | None = None,
    exclusive: bool = False,
) -> Generator[tuple[T, Any], None, None]:
    """Does the tasks and gives (task, result) of each; see ``run_tasks``.

    The nodes must reach this host by its name, and see the current folder. Partition, account and
    time limit are those of the environment variables of ``sbatch``, such as ``SBATCH_PARTITION``.

    Args:
        cluster: of CLUSTERS; None is "slurm".
        exclusive: each job has its node to itself.

    Raises:
        BackendError: there is no Slurm.
        WorkersLostError: jobs end before they connect.
        TaskError: tasks ended several jobs each; all others are done.
        DescriptionError: another cluster.
        MissingExtraError: submitit is not installed.
    """
    require("submitit")
    cluster = cluster or "slurm"
    if cluster not in CLUSTERS:
        raise DescriptionError(f"address {cluster!r}: of jobs it is {' or '.join(CLUSTERS)}")
    is_local = cluster == "local"
    if not is_local and shutil.which("sbatch") is None:
        raise BackendError(
            'no Slurm on this host: sbatch is missing; the address "local" starts jobs on this host'
        )
    key = secrets.token_bytes(32)
    host = "127.0.0.1" if is_local else socket.gethostname()
    with socket.create_server((host if is_local else "", 0)) as server:
        worker = partial(_work, (host, server.getsockname()[1]), key, make_work)
        group = _Jobs(worker, cluster, jobs, exclusive and not is_local)
        try:
            yield from _over_jobs(server, key, group, tasks, jobs)
        finally:
            group.end()


def _over_jobs(
    server: socket.socket, key: bytes, group: _Jobs, tasks: Sequence[T], jobs: int
) -> Generator[tuple[T, Any], None, None]:
    """Hands one task at a time to each job that has connected."""
    waiting = list(reversed(tasks))
    losses = Losses()
    idle: list[Connection] = []
    busy: dict[Connection, T] = {}
    group.start(min(jobs, len(tasks)))
    closed = 0
    try:
        while waiting or busy:
            while idle and waiting:
                worker = idle.pop()
                busy[worker] = waiting.pop()
                with suppress(OSError):  # of a lost job, which is noticed next
                    worker.send(busy[worker])
            ready = wait([server, *busy, *idle], timeout=LOOK)
            for pipe in ready:
                if not isinstance(pipe, Connection):
                    idle += _accepted(server, key)
                    continue
                try:
                    result = receive(pipe)
                except WorkerEnded:
                    pipe.close()
                    closed += 1
                    if pipe in idle:
                        idle.remove(pipe)
                        continue
                    task = busy.pop(pipe)
                    if losses.add(task, group.last_words()):
                        waiting.append(task)
                        warn_of_loss("a job", len(busy) + len(idle), group.last_words())
                    continue
                idle.append(pipe)
                yield busy.pop(pipe), result
            if not ready:
                if group.dead() - closed >= _MOST_DEAD:
                    raise WorkersLostError(f"jobs end before they begin: {group.last_words()}")
                group.start(min(jobs, len(waiting) + len(busy)) - group.living())
        losses.check()
    finally:
        for worker in (*idle, *busy):
            worker.close()


def _accepted(server: socket.socket, key: bytes) -> list[Connection]:
    """The worker that connects, if it has the key: anybody can connect."""
    ours, _ = server.accept()
    # What says nothing for ten seconds is no worker of ours.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 10, 0))
    # A node that lost its power closes no connection.
    for option, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10)):
        if hasattr(socket, option):
            ours.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    pipe = Connection(ours.dup().detach())
    try:
        deliver_challenge(pipe, key)
        answer_challenge(pipe, key)
    except (EOFError, OSError, AssertionError, AuthenticationError):
        pipe.close()
        return []
    finally:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
        ours.close()
    return [pipe]
