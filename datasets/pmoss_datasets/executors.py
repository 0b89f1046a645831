"""Executors of independent tasks: this process, several, a Ray cluster, or jobs of Slurm."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pmoss_datasets.worker_processes import Losses, in_processes, warn_of_loss
from pmoss_env.checks import check_name
from pmoss_env.errors import (
    BackendError,
    DescriptionError,
    WorkersLostError,
)
from pmoss_env.extras import require

#: The custom resource by which a Ray node declares itself a server to be measured, one task at a
#: time: ``ray start --address=... --resources='{"pmoss_server": 1}'``.
SERVER = "pmoss_server"
EXECUTORS = ("processes", "ray", "slurm")

#: Workers of one host, or of a cluster.
MOST_PROCESSES = 1024

#: Seconds between two looks at a cluster that says nothing, and between two questions to an actor
#: that cannot be reached.
_LOOK, _PAUSE = 2.0, 0.2
#: Actors that may end before they answer: then something is wrong with all of them.
_MOST_SILENT = 3

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Work(Protocol[T_contra, R_co]):
    """Does one task after the other; it makes expensive objects at its first task."""

    def __call__(self, task: T_contra, /) -> R_co:
        """Does a task: the result does not depend on which executor did which tasks before."""

    def close(self) -> None:
        """Releases what it holds."""


def run_tasks(
    make_work: Callable[[], Work[T, R]],
    tasks: Sequence[T],
    *,
    executor: str = "processes",
    processes: int = 1,
    address: str | None = None,
    on_servers: bool = False,
) -> Generator[tuple[T, R], None, None]:
    """Does the tasks and gives (task, result) of each, in whatever order they end.

    Close it when it is left early: what still works for it ends then.

    Args:
        make_work: makes what does tasks, once per process; it can be sent to another process, and
            so can tasks and results.
        executor: one of EXECUTORS.
        processes: how many at once, on Slurm jobs; on a Ray cluster 0 means as many as it has CPUs
            (for tasks on servers always one per server that declares the resource SERVER).
        address: of a Ray cluster; None: the one that ``RAY_ADDRESS`` names, else one of this host.
            Of "slurm", "local" has submitit start the jobs on this host.
        on_servers: on a cluster, the tasks measure the node that does them.

    Raises:
        DescriptionError: a number of processes that is not possible.
        BackendError: a cluster without a server.
        WorkersLostError: a cluster that lost all its nodes; the results so far were given.
        TaskError: tasks that ended several workers of a cluster each; all others are done.
        PmossError: a worker process was killed.
    """
    check_executor(executor, processes, address)
    if executor == "ray":
        return _on_ray(make_work, tasks, processes, address, on_servers)
    if executor == "slurm":
        from pmoss_datasets.worker_jobs import in_jobs

        return in_jobs(make_work, tasks, processes, address, on_servers)
    if processes == 1:
        return _in_this_process(make_work, tasks)
    return in_processes(make_work, tasks, processes)


def at_once(processes: int | None, executor: str) -> int:
    """Number of concurrent tasks: as given, else 1 here and all CPUs of a Ray cluster."""
    return processes if processes is not None else int(executor != "ray")


def check_executor(executor: str, processes: int, address: str | None = None) -> None:
    """Refuses what run_tasks() would refuse; see there."""
    check_name("executor", executor, EXECUTORS)
    if address and executor not in ("ray", "slurm"):
        raise DescriptionError(f"address = {address!r}: is of the executors ray and slurm")
    least = 0 if executor == "ray" else 1
    if processes < least:
        raise DescriptionError(f"processes = {processes}: must be at least {least}")
    if processes > MOST_PROCESSES:
        raise DescriptionError(f"processes = {processes}: must be at most {MOST_PROCESSES:,}")


def check_extras(executor: str) -> None:
    """Raises MissingExtraError if the package of an executor is not installed."""
    if package := {"ray": "ray", "slurm": "submitit"}.get(executor):
        require(package)


def _in_this_process(
    make_work: Callable[[], Work[T, R]], tasks: Sequence[T]
) -> Generator[tuple[T, R], None, None]:
    work = make_work()
    try:
        for task in tasks:
            yield task, work(task)
    finally:
        work.close()


class _Actor:
    """A worker on a Ray cluster."""

    def __init__(self, make_work: Callable[[], Work[Any, Any]]) -> None:
        self._make_work = make_work
        self._work: Work[Any, Any] | None = None

    def node(self) -> str:
        """The identifier of its node: an actor that names it can do tasks."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def do(self, task: Any) -> Any:
        """The result of a task."""
        if self._work is None:
            self._work = self._make_work()
        return self._work(task)


@dataclass(eq=False)
class _Worker:
    """An actor, and the identifier of its node once it has answered."""

    actor: Any
    node: str = ""


def _on_ray(
    make_work: Callable[[], Work[T, R]],
    tasks: Sequence[T],
    processes: int,
    address: str | None,
    on_servers: bool,
) -> Generator[tuple[T, R], None, None]:
    require("ray")
    import ray

    began = not ray.is_initialized()
    if began:
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    try:
        yield from _over_actors(ray, make_work, tasks, processes, on_servers)
    finally:
        if began:
            ray.shutdown()


def _over_actors(
    ray: Any,
    make_work: Callable[[], Work[T, R]],
    tasks: Sequence[T],
    processes: int,
    on_servers: bool,
) -> Generator[tuple[T, R], None, None]:
    """Hands one task at a time to each actor that answers.

    A lost actor leaves its task to others, and a new one takes its place where the cluster still
    has room for it. Each loss is a RuntimeWarning. A task is to blame for an actor that ended on a
    node that lives.
    """
    resources = ray.cluster_resources()
    if on_servers:
        count, needs = int(resources.get(SERVER, 0)), {"num_cpus": 0, "resources": {SERVER: 1}}
        if count == 0:
            raise BackendError(
                f"no node of the Ray cluster declares the resource {SERVER!r}: start each server "
                f"with ray start --address=... --resources='{{\"{SERVER}\": 1}}'"
            )
    else:
        count, needs = processes or int(resources.get("CPU", 1)), {"num_cpus": 1}
    make: Callable[[], _Worker] = lambda: _Worker(  # noqa: E731
        ray.remote(_Actor).options(**needs).remote(make_work)
    )
    workers = [make() for _ in range(min(count, len(tasks)))]
    waiting = list(reversed(tasks))
    idle: list[_Worker] = []
    running: dict[Any, tuple[_Worker, T]] = {}
    # Those that are asked whether they live, with the task that they may have ended on.
    asked: dict[Any, tuple[_Worker, list[T]]] = {w.actor.node.remote(): (w, []) for w in workers}
    losses, silent = Losses(), 0
    try:
        while waiting or running or any(lost for _, lost in asked.values()):
            while idle and waiting:
                worker, task = idle.pop(), waiting.pop()
                running[worker.actor.do.remote(task)] = (worker, task)
            done, _ = ray.wait([*running, *asked], num_returns=1, timeout=_LOOK)
            if not done and not running and not _has_room(ray, needs):
                raise _no_node("no living node has room for a worker")
            for reference in done:
                if reference in running:
                    worker, task = running.pop(reference)
                    try:
                        result: R = ray.get(reference)
                    except ray.exceptions.RayTaskError as error:
                        raise error.cause from None
                    except ray.exceptions.RayActorError:
                        # The cluster knows only after some seconds whether a node is gone.
                        asked[worker.actor.node.remote()] = (worker, [task])
                        continue
                    idle.append(worker)
                    yield task, result
                    continue
                worker, lost = asked.pop(reference)
                try:
                    worker.node = ray.get(reference)
                except ray.exceptions.ActorUnavailableError:
                    time.sleep(_PAUSE)
                    asked[worker.actor.node.remote()] = (worker, lost)
                    continue
                except ray.exceptions.RayActorError as error:
                    workers.remove(worker)
                    reason = _first_line(error)
                    node_lives = any(n["Alive"] and n["NodeID"] == worker.node for n in ray.nodes())
                    waiting += [t for t in lost if not node_lives or losses.add(t, reason)]
                    silent += not worker.node
                    if silent == _MOST_SILENT:
                        raise WorkersLostError(f"workers end before they begin: {error}") from error
                    if _has_room(ray, needs):
                        workers.append(make())
                        asked[workers[-1].actor.node.remote()] = (workers[-1], [])
                    if not workers:
                        raise _no_node(reason) from error
                    warn_of_loss("a worker on the Ray cluster", len(workers), reason)
                    continue
                waiting += lost
                idle.append(worker)
        losses.check()
    finally:
        for worker in workers:
            ray.kill(worker.actor)


def _no_node(reason: str) -> WorkersLostError:
    return WorkersLostError(
        f"the Ray cluster lost its last node: {reason}; no task is to blame: add nodes, and run "
        "this again"
    )


def _has_room(ray: Any, needs: dict[str, Any]) -> bool:
    """Whether a living node has what an actor needs, in use or not."""
    wanted = {"CPU": needs["num_cpus"], **needs.get("resources", {})}
    return any(
        all(node["Resources"].get(name, 0) >= amount for name, amount in wanted.items())
        for node in ray.nodes()
        if node["Alive"]
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
