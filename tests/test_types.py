"""Types and errors that all layers share."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.errors import MissingExtraError, PmossError, ScheduleError, UnknownNameError
from pmoss_env.machines import load_machine
from pmoss_env.types import (
    COUNTER_INDEX,
    COUNTER_NAMES,
    COUNTERS,
    READABLE,
    LoadRegime,
    Schedule,
    readable_counters,
)


def test_vocabulary_holds_the_papers_fifteen_counters_once_each() -> None:
    assert [counter.source for counter in COUNTERS[6:21]] == ["hardware"] * 15
    assert len(set(COUNTER_NAMES)) == len(COUNTER_NAMES)
    assert all(COUNTER_NAMES[i] == name for name, i in COUNTER_INDEX.items())


def test_makers_have_all_counters_of_the_kernel_and_some_of_the_hardware() -> None:
    sets = {
        kind: {
            name for name, has in zip(COUNTER_NAMES, readable_counters(kind), strict=True) if has
        }
        for kind in READABLE
    }
    assert sets["software"] < sets["arm"] < sets["amd"] < sets["all"] == {*COUNTER_NAMES}
    assert "cycles" in sets["arm"], "the kernel knows it on every processor"
    assert "memory_misses" in sets["amd"] - sets["arm"]
    assert "local_dram" not in sets["amd"], "Intel's alone"
    assert sets["software"] == {c.name for c in COUNTERS if c.source != "hardware"}


@pytest.mark.parametrize("kind", READABLE)
def test_a_snapshot_is_limited_to_what_can_be_read(kind: str) -> None:
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=8)
    workers = np.resize(backend.machine.workers, 8)
    snapshot = backend.measure(backend.machine.local_schedule(workers), seed=0)
    limited, kept = snapshot.limited_to(kind), readable_counters(kind)
    assert (limited.counters_available == (snapshot.counters_available & kept)).all()
    assert (limited.slice_counters[:, kept] == snapshot.slice_counters[:, kept]).all()
    assert not limited.slice_counters[:, ~kept].any()
    assert limited.offcore_available.any() == (kind != "software")


def test_schedule_is_frozen_and_compares_by_value() -> None:
    given = np.array([1, 2])
    schedule = Schedule(given, np.array([0, 0]))
    given[0] = 7
    assert schedule.cores.tolist() == [1, 2]
    assert schedule == Schedule([1, 2], [0, 0])
    assert hash(schedule) == hash(Schedule([1, 2], [0, 0]))
    assert schedule != Schedule([1, 2], [0, 1])
    with pytest.raises(ValueError, match="read-only"):
        schedule.cores[0] = 3


@pytest.mark.parametrize(
    ("cores", "complaint"),
    [
        (np.array([2**32 + 3, 1]), "4294967299 does not fit 32 bits"),
        (np.array([3.9, 1.0]), "of type float64: must be whole numbers"),
        ([True, False], "of type bool"),
        ([1, [2]], "must be a one-dimensional list"),
    ],
)
def test_schedule_takes_no_core_that_would_be_cut_to_fit(cores: object, complaint: str) -> None:
    with pytest.raises(ScheduleError, match=complaint):
        Schedule(cores, [0, 0])  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match=complaint):
        load_machine("toy").local_schedule(cores)


def test_schedule_refuses_shapes_that_do_not_fit() -> None:
    with pytest.raises(ScheduleError, match="2 cores but 1 nodes"):
        Schedule([1, 2], [0])
    with pytest.raises(ScheduleError, match="one-dimensional"):
        Schedule([[1, 2]], [[0, 0]])


@pytest.mark.parametrize(
    "text", ["closed", "closed:4096", "saturated", "saturated:mix", "open:2.5"]
)
def test_load_regime_reads_what_it_writes(text: str) -> None:
    assert str(LoadRegime.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "close", "closed:", "closed:0", "closed:-1", "open:", "open:-1", "open:nan", "open:inf"],
)
def test_unknown_load_is_named_with_the_right_ones(text: str) -> None:
    with pytest.raises(
        UnknownNameError, match="closed, closed:<queries in flight per worker>, open:<million "
    ):
        LoadRegime.parse(text)


def test_unknown_name_suggests_the_nearest() -> None:
    error = UnknownNameError("machine", "skylake-x-8m", ["milan-nps4", "skylake-x-8n"])
    assert str(error) == (
        "unknown machine 'skylake-x-8m'. Did you mean 'skylake-x-8n'? "
        "Known: milan-nps4, skylake-x-8n"
    )
    assert isinstance(error, KeyError)
    assert isinstance(error, PmossError)


ERRORS = (UnknownNameError("machine", "x", ["y"]), MissingExtraError("torch", "agents"))


def fail(number: int) -> None:
    raise ERRORS[number]


def test_errors_come_whole_out_of_worker_processes() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for number, error in enumerate(ERRORS):
            again = pool.submit(fail, number).exception(timeout=60)
            assert type(again) is type(error)
            assert str(again) == str(error)


def test_missing_extra_says_what_to_install() -> None:
    assert "pip install '.[agents]' in a checkout" in str(MissingExtraError("torch", "agents"))
