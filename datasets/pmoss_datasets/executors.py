"""Where the episodes of a collection are played: in this process, in several, on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any

import numpy as np

from pmoss_datasets.playing import Player
from pmoss_datasets.recipes import Recipe
from pmoss_env.errors import BackendError, DescriptionError, MissingExtraError, UnknownNameError
from pmoss_env.processes import die_with_parent

#: Gives (number, record) of each task, in whatever order they end.
Results = Iterator[tuple[int, bytes]]
#: The custom resource by which a Ray node declares itself a server to be measured, one task at a
#: time: ``ray start --address=... --resources='{"pmoss_server": 1}'``.
SERVER = "pmoss_server"
EXECUTORS = ("processes", "ray")


class Work:
    """The tasks of one recipe: first its episodes, then its reference episodes."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        # Made by the first task: what it raises is then that task's error, wherever it is done.
        self._player: Player | None = None

    def __call__(self, number: int) -> bytes:
        """The record of one task: an episode as ``Played.to_bytes``, or three float64."""
        if self._player is None:
            self._player = Player(self._recipe)
        if number < self._recipe.episodes:
            return self._player.episode(number).to_bytes()
        scores = self._player.reference(number - self._recipe.episodes)
        return np.array(scores, dtype="<f8").tobytes()

    def close(self) -> None:
        """Releases the backends."""
        if self._player is not None:
            self._player.close()


def run_tasks(
    recipe: Recipe,
    tasks: Sequence[int],
    *,
    executor: str = "processes",
    processes: int = 1,
    address: str | None = None,
) -> Results:
    """Does the tasks; each is decided by the recipe and its number alone.

    Args:
        recipe: what to play.
        tasks: numbers, as Work takes them.
        executor: "processes" or "ray".
        processes: how many at once; on a Ray cluster 0 means as many as it has CPUs (for the
            hardware backend always one per server that declares the resource SERVER).
        address: of a Ray cluster; None: the one that ``RAY_ADDRESS`` names, else one of this host.

    Raises:
        UnknownNameError: no such executor.
        DescriptionError: a number of processes that is not possible.
        MissingExtraError: Ray is not installed.
        BackendError: a Ray cluster without a server, or that lost all its nodes.
    """
    if executor not in EXECUTORS:
        raise UnknownNameError("executor", executor, EXECUTORS)
    least = 0 if executor == "ray" else 1
    if processes < least:
        raise DescriptionError(f"processes = {processes}: must be at least {least}")
    if executor == "ray":
        return _on_ray(recipe, tasks, processes, address)
    return _here(recipe, tasks) if processes == 1 else _in_processes(recipe, tasks, processes)


def _here(recipe: Recipe, tasks: Sequence[int]) -> Results:
    work = Work(recipe)
    try:
        for number in tasks:
            yield number, work(number)
    finally:
        work.close()


def _in_processes(recipe: Recipe, tasks: Sequence[int], processes: int) -> Results:
    pool = ProcessPoolExecutor(
        processes,
        # A forked copy of a process with threads (torch, BLAS) may hang.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_worker,
        initargs=(recipe, os.getpid()),
    )
    futures: dict[Future[bytes], int] = {}
    try:
        futures.update((pool.submit(_in_worker, number), number) for number in tasks)
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()
        pool.shutdown(wait=True, cancel_futures=True)


_work: Work | None = None


def _begin_worker(recipe: Recipe, parent: int) -> None:
    """Prepares a worker process."""
    global _work
    die_with_parent(parent)
    _work = Work(recipe)


def _in_worker(number: int) -> bytes:
    assert _work is not None
    return _work(number)


def _on_ray(recipe: Recipe, tasks: Sequence[int], processes: int, address: str | None) -> Results:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    began = not ray.is_initialized()
    if began:
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    try:
        yield from _over_actors(ray, recipe, tasks, processes)
    finally:
        if began:
            ray.shutdown()


def _over_actors(ray: Any, recipe: Recipe, tasks: Sequence[int], processes: int) -> Results:
    """Hands one task at a time to each actor; an actor that is lost leaves its task to others."""
    resources = ray.cluster_resources()
    if recipe.kwargs["backend"] == "hardware":
        count, needs = int(resources.get(SERVER, 0)), {"num_cpus": 0, "resources": {SERVER: 1}}
        if count == 0:
            raise BackendError(
                f"no node of the Ray cluster declares the resource {SERVER!r}: start each server "
                f"with ray start --address=... --resources='{{\"{SERVER}\": 1}}'"
            )
    else:
        count, needs = processes or int(resources.get("CPU", 1)), {"num_cpus": 1}
    make: Callable[[], Any] = lambda: ray.remote(Work).options(**needs).remote(recipe)  # noqa: E731
    actors = [make() for _ in range(min(count, len(tasks)))]
    waiting = list(reversed(tasks))
    running: dict[Any, tuple[Any, int]] = {}
    try:
        idle = list(actors)
        while waiting or running:
            while idle and waiting:
                number = waiting.pop()
                actor = idle.pop()
                running[actor.__call__.remote(number)] = (actor, number)
            done, _ = ray.wait(list(running), num_returns=1)
            actor, number = running.pop(done[0])
            try:
                record: bytes = ray.get(done[0])
            except ray.exceptions.RayActorError as error:
                actors.remove(actor)
                waiting.append(number)
                if not actors:
                    raise BackendError(f"the Ray cluster lost its last node: {error}") from error
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            idle.append(actor)
            yield number, record
    finally:
        for actor in actors:
            ray.kill(actor)
