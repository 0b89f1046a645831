"""The hardware backend in a process of its own, and everything that may happen to that process."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pmoss_env.backends import Backend, make_backend
from pmoss_env.backends.frames import pack_snapshot, unpack_snapshot
from pmoss_env.backends.isolated import IsolatedBackend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import BackendError, DescriptionError, ScheduleError, UnsupportedError
from pmoss_env.types import COUNTER_INDEX, CoTenant, Instance, Schedule
from tests.backends.ended import is_running, wait_until_gone

SLICES = 8
#: How a program begins whose backend has measured once.
MEASURED = """
import os, time
from pmoss_env.backends import make_backend
from pmoss_env.baselines import Context, make_baseline
backend = make_backend('hardware', machine='host', workload='ycsb-a', slices=8,
                       records=1000, seconds=0.05, warmup_seconds=0.0)
schedule = make_baseline('spread')(Context(backend.machine, 8))
backend.measure(schedule, seed=0)
"""


def make(**changes: Any) -> IsolatedBackend:
    options = {"records": 10_000, "seconds": 0.1, "warmup_seconds": 0.02, **changes}
    backend = make_backend("hardware", machine="host", workload="ycsb-a", slices=SLICES, **options)
    assert isinstance(backend, IsolatedBackend)
    return backend


@pytest.fixture
def backend() -> Iterator[IsolatedBackend]:
    backend = make()
    yield backend
    backend.close()


def schedule_for(backend: Backend) -> Schedule:
    return make_baseline("spread")(Context(backend.machine, SLICES))


def test_it_measures_in_another_process() -> None:
    loaded: list[int] = []
    rounds: list[dict[str, Any]] = []
    backend = make(progress=loaded.append, on_round=rounds.append, sweep_seconds=0.02)
    assert isinstance(backend, Backend) and backend.process_id is None
    backend.set_instance(
        Instance(3, (CoTenant("busy_core", int(backend.machine.workers[0]), 0.5),))
    )
    snapshot = backend.measure(schedule_for(backend), seed=5)
    for _ in range(100):
        if rounds:
            break
        # On a busy host a measurement may end before the first of its rounds.
        snapshot = backend.measure(schedule_for(backend), seed=5)
    assert backend.process_id not in (None, os.getpid())
    assert snapshot.throughput > 0
    assert loaded[-1] == 10_000
    assert snapshot.provenance["seed"] == 5
    assert len(snapshot.provenance["co_tenant_cpus"]) == 1
    assert snapshot.counters_available[COUNTER_INDEX["queries"]]
    rounds_reported = snapshot.provenance["rounds"]
    assert [of_round["seconds"] for of_round in rounds] == rounds_reported["seconds"]
    assert [list(r["node_mq_per_s"].values()) for r in rounds] == pytest.approx(
        np.array(rounds_reported["node_mq_per_s"])
    )
    assert list(rounds[0]["node_counters_per_query"]) == [
        str(node) for node in rounds_reported["nodes"]
    ]
    process = backend.process_id
    backend.measure(schedule_for(backend), seed=6)
    assert backend.process_id == process
    backend.close()
    assert process is not None
    assert wait_until_gone(process)


def test_a_snapshot_keeps_its_bits(backend: IsolatedBackend) -> None:
    snapshot = backend.measure(schedule_for(backend), seed=1)
    again = unpack_snapshot(pack_snapshot(snapshot))
    np.testing.assert_array_equal(again.slice_counters, snapshot.slice_counters)
    assert again.slice_counters.dtype == snapshot.slice_counters.dtype
    assert again.counters_available.dtype == np.bool_
    assert again.throughput == snapshot.throughput


def test_a_child_may_die_in_the_middle_of_a_measurement() -> None:
    loaded = threading.Event()
    backend = make(seconds=60.0, progress=lambda records: loaded.set() if records else None)
    process: list[int] = []

    def kill() -> None:
        loaded.wait()
        process.append(backend.process_id or 0)
        time.sleep(0.5)
        os.kill(process[0], signal.SIGABRT)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(BackendError, match=r"signal 6(.|\n)*Its log ends:(.|\n)*measuring_child"):
        backend.measure(schedule_for(backend), seed=1)
    thread.join()
    assert backend.process_id is None
    assert wait_until_gone(process[0])


def test_errors_keep_their_type(backend: IsolatedBackend) -> None:
    with pytest.raises(ScheduleError, match="exactly 8"):
        backend.measure(Schedule([0], [0]), seed=0)
    with pytest.raises(DescriptionError, match="silence_seconds = 'x'"):
        make(silence_seconds="x")
    with pytest.raises(BackendError, match="seconds = 0"):
        make(seconds=0)
    with pytest.raises(UnsupportedError, match=r"takes no option 'sceonds'.*silence_seconds"):
        make(sceonds=1)
    # From within the child.
    cpu = int(backend.machine.cpu_of_core[backend.machine.workers[0]])
    if len(os.sched_getaffinity(0)) > 1:
        backend.measure(schedule_for(backend), seed=0)
        os.sched_setaffinity(backend.process_id or 0, os.sched_getaffinity(0) - {cpu})
        with pytest.raises(
            BackendError, match=f"CPU {cpu} of the machine's description is offline or outside"
        ):
            backend.measure(schedule_for(backend), seed=0)


def test_only_one_thread_measures_at_a_time() -> None:
    refused: list[BackendError] = []

    def measure_meanwhile(records: int) -> None:
        with pytest.raises(BackendError, match="another thread measures") as error:
            backend.measure(schedule_for(backend), seed=2)
        refused.append(error.value)

    backend = make(progress=measure_meanwhile)
    assert backend.measure(schedule_for(backend), seed=1).provenance["seed"] == 1
    assert refused
    assert backend.measure(schedule_for(backend), seed=3).provenance["seed"] == 3
    backend.close()


def test_a_forked_process_has_a_child_of_its_own() -> None:
    program = (
        f"{MEASURED}"
        "before = backend.process_id\n"
        "forked = os.fork()\n"
        "first = 100 if forked else 200\n"
        "for seed in range(first, first + 3):\n"
        "    assert backend.measure(schedule, seed=seed).provenance['seed'] == seed\n"
        "assert (backend.process_id == before) == (forked != 0)\n"
        "backend.close()\n"
        "if forked:\n"
        "    assert os.waitpid(forked, 0)[1] == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_child_dies_with_a_parent_that_is_killed() -> None:
    program = f"{MEASURED}print(backend.process_id, flush=True)\ntime.sleep(600)\n"
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until_gone(child)
