"""Types, errors and noise that all layers share."""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from pmoss_env._native import NoiseStream
from pmoss_env.backends import make_backend
from pmoss_env.errors import (
    DescriptionError,
    MissingExtraError,
    PmossError,
    ScheduleError,
    UnknownNameError,
)
from pmoss_env.machines import load_machine
from pmoss_env.noise import Noise
from pmoss_env.types import (
    COUNTER_INDEX,
    COUNTER_NAMES,
    COUNTERS,
    READABLE,
    LoadRegime,
    Schedule,
    readable_counters,
)
from tests.native.builds import run


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
    assert schedule.cores.tolist() == [1, 2] and schedule == Schedule([1, 2], [0, 0])
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
            assert type(again) is type(error) and str(again) == str(error)


def test_missing_extra_says_what_to_install() -> None:
    assert "pip install '.[agents]' in a checkout" in str(MissingExtraError("torch", "agents"))


@pytest.fixture(scope="module")
def snapshot():
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=512)
    schedule = backend.machine.local_schedule(backend.machine.workers[np.arange(512) % 6])
    return backend.measure(schedule, seed=0)


def test_strength_0_leaves_the_bits_alone(snapshot):
    noise = Noise(0.0, (1,))
    assert noise.snapshot(snapshot) is snapshot
    assert np.array_equal(noise.throughput_factors(3), np.ones(3))


def test_a_seed_names_the_stream(snapshot):
    first, second = Noise(1.0, (1, 2)), Noise(1.0, (1, 2))
    reading = first.snapshot(snapshot)
    assert reading.slice_counters.tobytes() == second.snapshot(snapshot).slice_counters.tobytes()
    assert np.array_equal(first.throughput_factors(2), second.throughput_factors(2))
    assert not np.array_equal(first.snapshot(snapshot).slice_counters, reading.slice_counters)
    different = Noise(1.0, (1, 3)).snapshot(snapshot)
    assert not np.array_equal(different.slice_counters, reading.slice_counters)


@pytest.mark.parametrize("strength", [-1, float("nan"), float("inf")])
def test_impossible_strengths_are_refused(strength):
    with pytest.raises(DescriptionError, match="noise"):
        Noise(strength, (0,))


@pytest.mark.parametrize("seed", [(0,), (1, 2), (2**53 - 1, 100), (2**64 - 1, 0, 7)])
def test_the_stream_is_that_of_numpys_generator(seed):
    """Twelve uniform numbers for a factor: those of a table lie behind each other in rows."""
    variations = np.array([counter.noise for counter in COUNTERS])
    stream, rng = NoiseStream(0.7, seed), np.random.default_rng(seed)
    for uniforms in (rng.random((12, 40, variations.size)), rng.random((12, 40, variations.size))):
        deviation = np.zeros(uniforms.shape[1:])
        for uniform in uniforms:
            deviation += uniform
        expected = np.maximum(1.0 + 0.7 * variations * (deviation - 6.0), 0.05)
        assert np.array_equal(stream.factors(variations.tolist(), 40), expected)
    expected = [1.0 + 0.7 * 0.015 * (sum(rng.random(12).tolist()) - 6.0) for _ in range(9)]
    assert stream.readings(0.015, 9).tolist() == expected


def test_the_bits_do_not_depend_on_the_vector_unit():
    """glibc's exp and log pick other code with fused multiply-add: noise must not use them."""
    program = (
        "import hashlib, numpy as np\n"
        "from pmoss_env._native import NoiseStream\n"
        "from pmoss_env.types import COUNTERS\n"
        "factors = NoiseStream(1.0, (1, 2)).factors([c.noise for c in COUNTERS], 256)\n"
        "print(hashlib.sha256(factors.tobytes()).hexdigest())\n"
    )
    plain = "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-AVX512F"
    digests = {
        run(sys.executable, "-c", program, **extra)
        for extra in ({}, {"GLIBC_TUNABLES": plain}, {"NPY_DISABLE_CPU_FEATURES": "AVX512F"})
    }
    assert len(digests) == 1


def test_response_times_keep_their_order_and_shift_no_other_draw(snapshot):
    noise, plain_noise = Noise(1.0, (6,)), Noise(1.0, (6,))
    shown = noise.response_times(snapshot)
    factor = shown.latency_p50_us / snapshot.latency_p50_us
    assert factor != 1.0
    assert shown.latency_p99_us == pytest.approx(snapshot.latency_p99_us * factor)
    assert noise.response_times(snapshot).latency_p50_us != shown.latency_p50_us
    same, plain = noise.snapshot(snapshot), plain_noise.snapshot(snapshot)
    assert same.slice_counters.tobytes() == plain.slice_counters.tobytes()
    assert same.throughput == plain.throughput
    assert Noise(0.0, (6,)).response_times(snapshot) is snapshot
