"""A live run of a library in a process of its own, and everything that may happen to it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.isolated_live import IsolatedLiveRuntime, live_runtime
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import BackendError, ScheduleError
from pmoss_env.indexes import register_plugin
from pmoss_env.types import Instance, Schedule
from tests.backends.ended import wait_until_gone

SLICES = 8


def served(library: Path, **options) -> tuple[IsolatedLiveRuntime, list[Schedule]]:
    small = {"slices": SLICES, "records": 5_000, "warmup_seconds": 0.01, "own_process": False}
    index = register_plugin(library)
    backend = make_backend("hardware", machine="host", workload="lookups", index=index, **small)
    assert isinstance(backend, HardwareBackend)
    live = live_runtime(backend, sweep_seconds=0.02, **options)
    assert isinstance(live, IsolatedLiveRuntime)
    context = Context(backend.machine, SLICES)
    return live, [make_baseline(name)(context) for name in ("spread", "grouped")]


def test_it_serves_as_a_live_run_in_this_process_does(faulty) -> None:
    live, schedules = served(faulty("good"))
    with pytest.raises(BackendError, match=r"call start\(\)"):
        live.next_round()
    live.set_instance(Instance(7))
    with live:
        live.start(schedules[0])
        process = live.process_id
        assert live.running and process not in (None, os.getpid())
        with pytest.raises(BackendError, match=r"call switch\(\)"):
            live.start(schedules[0])
        wrong = Schedule(schedules[0].cores[:-1], schedules[0].nodes[:-1])
        with pytest.raises(ScheduleError):
            live.switch(wrong)
        live.switch(schedules[1])
        read = live.next_round()
        while read is None or not read.switches:
            read = live.next_round()
        assert read.snapshot.slice_throughput.shape == (SLICES,)
        assert read.pending_slices.dtype == np.int32
        assert read.snapshot.provenance["index"] == f"plugin:{faulty('good')}"
        live.drop_rounds()
        assert live.records() == 5_000
        counted = live.stop()
        assert counted["schedules"] == 1 and counted["not_found"] == 0
        assert "in_place" in live.data_facts(counted)
        live.start(schedules[0])  # once more, in the same process
        assert live.process_id == process
    assert not live.running and live.process_id == process
    live.unload()
    assert wait_until_gone(process)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("crashes_later", "died of signal 6"),
        ("exits_later", "ended with status 0"),
        ("finds_nothing", "does not find the key"),
        ("throws", "something was thrown"),
    ],
)
def test_an_error_names_the_library_and_the_way_out(faulty, fault, message) -> None:
    live, schedules = served(faulty(fault))
    with pytest.raises(BackendError, match=message) as refused, live:
        live.start(schedules[0])
        while True:
            live.next_round()
    assert f"pmoss index check {faulty(fault)}" in str(refused.value)
    assert not live.running
    live.unload()


def test_a_run_that_hangs_is_ended(faulty) -> None:
    live, schedules = served(faulty("hangs_later"), silence_seconds=30.0)
    with live:
        live.start(schedules[0])
        process = live.process_id
        while live.next_round(timeout=0.5) is not None:
            pass
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            live.stop()
        assert not live.running
    assert process and wait_until_gone(process)


@pytest.fixture(autouse=True)
def no_timer() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)
