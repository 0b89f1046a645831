"""Executors of independent tasks: this process, several, a Ray cluster, or jobs of Slurm."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from pmoss_datasets.worker_processes import Losses, in_processes, warn_of_loss
from pmoss_env.errors import (
    BackendError,
    DescriptionError,
    UnknownNameError,
)
from pmoss_env.extras import require

#: The custom resource by which a Ray node declares itself a server to be measured, one task at a
#: time: ``ray start --address=... --resources='{"pmoss_server": 1}'``.
SERVER = "pmoss_server"
EXECUTORS = ("processes", "ray", "slurm")

#: Workers of one host, or of a cluster.
MOST_PROCESSES = 1024

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
        BackendError: a cluster without a server, or that lost all its nodes; a task that ended
            several workers of a cluster.
        PmossError: a worker process was killed.
    """
    check_executor(executor, processes)
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


def check_executor(executor: str, processes: int) -> None:
    """Refuses what run_tasks() would refuse; see there."""
    if executor not in EXECUTORS:
        raise UnknownNameError("executor", executor, EXECUTORS)
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
        self._work = make_work()

    def do(self, task: Any) -> Any:
        return self._work(task)


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
    """Hands one task at a time to each actor.

    A lost actor leaves its task to others, and a new one takes its place where the cluster still
    has room for it. Each loss is a RuntimeWarning.
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
    make: Callable[[], Any] = lambda: ray.remote(_Actor).options(**needs).remote(make_work)  # noqa: E731
    actors = [make() for _ in range(min(count, len(tasks)))]
    waiting = list(reversed(tasks))
    running: dict[Any, tuple[Any, T]] = {}
    losses = Losses()
    try:
        idle = list(actors)
        while waiting or running:
            while idle and waiting:
                task = waiting.pop()
                actor = idle.pop()
                running[actor.do.remote(task)] = (actor, task)
            done, _ = ray.wait(list(running), num_returns=1)
            actor, task = running.pop(done[0])
            try:
                result: R = ray.get(done[0])
            except ray.exceptions.RayActorError as error:
                actors.remove(actor)
                losses.add(task, error)
                waiting.append(task)
                if _has_room(ray, needs):
                    actors.append(make())
                    idle.append(actors[-1])
                if not actors:
                    raise BackendError(f"the Ray cluster lost its last node: {error}") from error
                warn_of_loss("a worker on the Ray cluster", len(actors), _first_line(error))
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            idle.append(actor)
            yield task, result
    finally:
        for actor in actors:
            ray.kill(actor)


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
