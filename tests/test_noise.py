import sys

import numpy as np
import pytest

from pmoss_env._native import NoiseStream
from pmoss_env.backends import make_backend
from pmoss_env.errors import DescriptionError
from pmoss_env.noise import Noise
from pmoss_env.types import COUNTERS
from tests.native.builds import run


@pytest.fixture(scope="module")
def snapshot():
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=512)
    workers = backend.machine.workers
    schedule = backend.machine.local_schedule(workers[np.arange(512) % 6])
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
