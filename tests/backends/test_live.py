"""The live run on whatever host runs the tests: no figure is asserted, only its sense."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.live import LiveRound, LiveRuntime, mean_snapshot
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import BackendError, ForkedError, ScheduleError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTERS, Schedule
from tests.backends.ended import threads_of_process

SLICES = 16


@pytest.fixture(scope="module")
def backend() -> Iterator[HardwareBackend]:
    small = {"slices": SLICES, "records": 20_000, "warmup_seconds": 0.02, "own_process": False}
    backend = make_backend("hardware", machine="host", workload="ycsb-a", **small)
    assert isinstance(backend, HardwareBackend)
    yield backend
    backend.close()


@pytest.fixture
def schedules(backend: HardwareBackend) -> list[Schedule]:
    context = Context(backend.machine, SLICES)
    return [make_baseline(name)(context) for name in ("grouped", "spread")]


def read_until(live: LiveRuntime, wanted: Any) -> list[LiveRound]:
    rounds = []
    while not rounds or not wanted(rounds[-1]):
        read = live.next_round(timeout=60.0)
        assert read is not None
        rounds.append(read)
    return rounds


def test_serves_through_switches(backend: HardwareBackend, schedules: list[Schedule]) -> None:
    threads = threads_of_process()
    with LiveRuntime(backend, sweep_seconds=0.01, always_move=True) as live:
        live.start(schedules[0])
        assert live.running
        rounds = []
        for number in range(6):
            live.switch(schedules[(number + 1) % 2], lazy=number % 3 > 0)
            rounds += read_until(live, lambda r, n=number: r.switches == n + 1)
        rounds += read_until(live, lambda r: r.pending == 0)
        result = live.stop()
        assert not live.running
    assert threads_of_process() == threads
    assert result["issued"] == result["executed"] and result["not_found"] == 0
    assert result["schedules"] == 6
    assert result["completed"] >= sum(
        round(r.snapshot.throughput * 1e6 * r.snapshot.provenance["seconds"]) for r in rounds
    )
    before = -1
    for r in rounds:
        assert r.number == before + 1 + r.dropped
        before = r.number
        snapshot = r.snapshot
        assert snapshot.slice_counters.shape == (SLICES, len(COUNTERS))
        assert snapshot.slice_throughput.sum() == pytest.approx(snapshot.throughput)
        assert np.isnan(snapshot.latency_p99_us) == (snapshot.throughput == 0)
        assert r.bytes_moved >= 0
        other = snapshot.provenance["worker_other_share"]
        assert len(other) == backend.machine.workers.size and 0 <= min(other) <= max(other) <= 1
    assert len(mean_snapshot(rounds).provenance["worker_other_share"]) == len(other)
    # The backend is free again.
    assert backend.measure(schedules[0], seed=1).throughput >= 0


@pytest.mark.skipif(load_machine("host").workers.size < 2, reason="needs two worker cores")
def test_workers_that_lose_their_cpus_are_named(backend, schedules):
    with LiveRuntime(backend, sweep_seconds=0.01) as live:
        live.start(schedules[0])
        for thread in map(int, os.listdir("/proc/self/task")):
            with suppress(ProcessLookupError):  # a thread of another test that ends
                if len(os.sched_getaffinity(thread)) == 1:
                    os.sched_setaffinity(thread, {int(backend.machine.cpu_of_core[0])})
        with pytest.raises(BackendError, match="was bound to CPU"):
            read_until(live, lambda r: False)
        assert not live.running


def test_what_is_refused_leaves_the_run_alone(backend, schedules):
    live = LiveRuntime(backend)
    with pytest.raises(BackendError, match=r"call start\(\)"):
        live.next_round()
    with live:
        live.start(schedules[0])
        with pytest.raises(BackendError, match=r"call switch\(\)"):
            live.start(schedules[0])
        with pytest.raises(BackendError, match="already loading or measuring"):
            backend.measure(schedules[0], seed=1)
        wrong = Schedule(schedules[0].cores[:-1], schedules[0].nodes[:-1])
        with pytest.raises(ScheduleError):
            live.switch(wrong)
        assert live.next_round() is not None
        assert live.next_round(timeout=0.0) is None and live.stop()["schedules"] == 0
        with pytest.raises(BackendError, match="no live run"):
            live.stop()
        live.start(schedules[1])  # once more
        assert live.running
    assert not live.running
    with pytest.raises(BackendError, match="sweep_seconds"):
        LiveRuntime(backend, sweep_seconds=0.0).start(schedules[0])


def _in_child(live: LiveRuntime, schedule: Schedule, out: Path) -> None:
    outcomes = [str(live.running)]
    for call in (live.next_round, live.stop, lambda: live.switch(schedule)):
        try:
            call()
        except ForkedError:
            outcomes.append("forked")
        except BackendError:
            outcomes.append("none")
    out.write_text(" ".join(outcomes))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_no_run(backend, schedules, tmp_path):
    with LiveRuntime(backend) as live:
        live.start(schedules[0])
        child = multiprocessing.get_context("fork").Process(
            target=_in_child, args=(live, schedules[1], tmp_path / "outcomes")
        )
        child.start()
        child.join()
        assert child.exitcode == 0
        # stop() has let go of the run.
        assert (tmp_path / "outcomes").read_text() == "False forked forked none"
        assert live.next_round() is not None
        live.switch(schedules[1])
        live.stop()


def test_needs_an_index_in_this_process(backend: HardwareBackend) -> None:
    other = make_backend("hardware", machine="host", workload="ycsb-a", slices=SLICES)
    with pytest.raises(BackendError, match="own_process=False"):
        LiveRuntime(other)  # type: ignore[arg-type]
