"""Tasks are done whatever the processes; what fails says so."""

import os
from functools import partial

import pytest

from pmoss_datasets.executors import run_tasks
from pmoss_env.errors import DescriptionError, PmossError, UnknownNameError


class Doubling:
    """Doubles; ends the process at a task of 13, and fails at -1."""

    def __call__(self, task: int) -> int:
        if task == 13:
            os._exit(1)
        if task < 0:
            raise DescriptionError(f"task {task}")
        return 2 * task

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("processes", [1, 2])
def test_every_task_is_done_once(processes: int) -> None:
    found = dict(run_tasks(Doubling, range(5), processes=processes))
    assert found == {0: 0, 1: 2, 2: 4, 3: 6, 4: 8}


@pytest.mark.parametrize("processes", [1, 2])
def test_errors_of_tasks_arrive_as_they_are(processes: int) -> None:
    with pytest.raises(DescriptionError, match="task -1"):
        list(run_tasks(Doubling, [1, -1], processes=processes))


def test_a_killed_worker_is_a_typed_error() -> None:
    with pytest.raises(PmossError, match="worker process was killed"):
        list(run_tasks(Doubling, [13, 1, 2], processes=2))


def test_impossible_executors_are_refused() -> None:
    run = partial(run_tasks, Doubling, [1])
    with pytest.raises(UnknownNameError, match="executor"):
        run(executor="slurm")
    for processes, executor in ((0, "processes"), (-1, "ray")):
        with pytest.raises(DescriptionError, match=f"processes = {processes}"):
            run(executor=executor, processes=processes)
