"""The R-tree on the backends."""

import dataclasses

import gymnasium
import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.backends.analytic import AnalyticBackend
from pmoss_env.backends.profilers import make_profiler
from pmoss_env.backends.reporting import LoggedProgress
from pmoss_env.errors import BackendError, UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import Instance
from pmoss_env.workloads import Workload, load_workload


def small(name: str, records: int = 200_000) -> Workload:
    return dataclasses.replace(load_workload(name), records=records)


def analytic(workload: Workload, slices: int = 64) -> AnalyticBackend:
    backend = make_backend(
        "analytic", machine="skylake-x-8n", workload=workload, index="rtree", slices=slices
    )
    assert isinstance(backend, AnalyticBackend)
    return backend


def test_the_analytic_model_agrees_with_the_simulated_server() -> None:
    machine = load_machine("skylake-x-8n")
    workload = small("rtree-ranges")
    model = analytic(workload)
    sizes = {"index": "rtree", "slices": 64, "queries": 400_000, "line_sampling": 4}
    server = make_backend("simulated", machine=machine, workload=workload, **sizes)
    workers = np.flatnonzero(machine.worker_mask)
    for seed in range(3):
        schedule = machine.local_schedule(np.random.default_rng(seed).choice(workers, 64))
        measured = server.measure(schedule, seed=1).throughput
        assert model.place(schedule) == pytest.approx(measured, rel=0.12)
    server.close()


def test_the_tree_is_run_once_per_process() -> None:
    workload = small("rtree-ranges")
    assert make_profiler(workload, 64, None) is make_profiler(workload, 64, None)
    assert make_profiler(workload, 64, None) is not make_profiler(workload, 16, None)


def test_zipf_over_points_is_refused() -> None:
    workload = dataclasses.replace(small("rtree-ranges"), distribution="zipf")
    backend = analytic(workload)
    with pytest.raises(BackendError, match="distribution is zipf; for profiles of points"):
        backend.set_instance(Instance(1))


@pytest.mark.parametrize("backend", ["analytic", "simulated"])
def test_the_tree_is_not_loaded_before_it_is_needed(backend, monkeypatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the tree was run")

    monkeypatch.setattr(_native.IndexKind, "make_profiler", refuse)
    monkeypatch.setattr(_native.IndexKind, "record", refuse)
    gymnasium.make("pmoss/skylake-x-8n-rtree-ranges-v0", backend=backend).close()
    # Another number of records, so that no tree of another test serves.
    few = gymnasium.make(
        "pmoss/skylake-x-8n-rtree-ranges-v0", backend=backend, backend_options={"records": 1234}
    )
    with pytest.raises(BackendError, match="the tree was run"):
        few.reset(seed=1)
    few.close()


@pytest.mark.parametrize("backend", ["analytic", "simulated"])
def test_more_points_than_memory_holds_are_refused(backend: str) -> None:
    subject = make_backend(
        backend, machine="toy", workload="rtree-ranges", index="rtree", slices=16, records=10**10
    )
    with pytest.raises(BackendError, match=r"GiB of memory|set line_sampling"):
        subject.measure(subject.machine.local_schedule(np.full(16, 1)), seed=0)
    subject.close()


def test_long_work_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tell = LoggedProgress(every=10)
    for seconds in (2.0, 2.5, 11.9, 12.0, 12.5, 3.0, 3.5):
        tell("profiling", seconds)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"profiling: {s} s so far" for s in (2, 12, 3)]


def test_the_workload_must_be_for_the_index() -> None:
    with pytest.raises(UnsupportedError, match="'rtree-ranges' is for index='rtree'"):
        make_backend("simulated", machine="skylake-x-8n", workload="rtree-ranges")
