"""The simulated backend, on small recordings. What the simulator computes is tested in C++."""

import subprocess
import sys
import tomllib

import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.baselines import SHARED_BASELINES, Context, make_baseline
from pmoss_env.errors import (
    BackendError,
    DescriptionError,
    ScheduleError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.machines import Machine
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.types import CoTenant, Instance

SMALL = {"records": 50_000, "queries": 20_000, "line_sampling": 4, "page_sampling": 2}


def make(**options):
    usual = {"machine": "toy", "slices": 16, "workload": "ycsb-a", "load": "closed", **SMALL}
    return make_backend("simulated", **{**usual, **options})


def schedule_of(backend, name="spread"):
    context = Context(backend.machine, backend.slices, rng=np.random.default_rng(1))
    return make_baseline(name, shared=True)(context)


@pytest.fixture(scope="module")
def backend():
    return make()


@pytest.mark.parametrize("load", ["closed", "saturated", "saturated:mix", "open:1"])
def test_its_snapshots_have_the_form_of_the_analytic_ones(load):
    backend = make(load=load)
    model = make_backend("analytic", machine="toy", workload="ycsb-a", slices=16, load=load)
    simulated, analytic = (b.measure(schedule_of(b), seed=3) for b in (backend, model))
    assert np.array_equal(simulated.counters_available, analytic.counters_available)
    assert np.array_equal(simulated.offcore_available, analytic.offcore_available)
    assert simulated.offcore_names == analytic.offcore_names
    assert simulated.load == analytic.load == load
    for name in ("slice_throughput", "slice_counters", "running_ratio", "offcore"):
        array, expected = getattr(simulated, name), getattr(analytic, name)
        assert array.shape == expected.shape
        assert array.dtype == expected.dtype == np.float64
        assert np.isfinite(array).all()
        assert (array >= 0).all()
    for snapshot in (simulated, analytic):
        share = snapshot.throughput / snapshot.slice_throughput.sum()
        assert share == pytest.approx(1) if load != "saturated:mix" else share < 0.99
    assert simulated.provenance["backend"] == "simulated"
    assert simulated.provenance["seed"] == 3
    assert simulated.provenance["queries"] == SMALL["queries"]
    # The same units: a core is busy for at most all of the time.
    assert simulated.counter("elapsed_us").sum() <= 1.01 * backend.machine.workers.size
    assert 0 < simulated.latency_p50_us <= simulated.latency_p99_us


def test_every_schedule_of_the_paper_runs(backend):
    for name in ("grouped", "spread", "mixed", "random", *SHARED_BASELINES):
        assert backend.measure(schedule_of(backend, name), seed=0).throughput > 0


def test_a_measurement_repeats_and_follows_its_seed(backend):
    schedule = schedule_of(backend, "shared-everything")
    first, again, other = (backend.measure(schedule, seed=seed) for seed in (1, 1, 2))
    assert first.throughput == again.throughput
    assert np.array_equal(first.slice_counters, again.slice_counters)
    assert first.throughput != other.throughput


def test_same_bits_in_another_process():
    program = (
        "from pmoss_env.backends import make_backend\n"
        "from pmoss_env.types import Instance, CoTenant\n"
        f"b = make_backend('simulated', machine='toy', workload='ycsb-a', slices=16, **{SMALL})\n"
        "b.set_instance(Instance(5, (CoTenant('busy_core', 1, 0.5),)))\n"
        "s = b.machine.local_schedule([1, 2, 3, 5, 6, 7, 1, 2] * 2)\n"
        "m = b.measure(s, seed=7)\n"
        "print(m.throughput.hex(), m.slice_counters.tobytes().hex())\n"
    )
    words = [sys.executable, "-c", program]
    theirs = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    backend = make()
    backend.set_instance(Instance(5, (CoTenant("busy_core", 1, 0.5),)))
    ours = backend.measure(backend.machine.local_schedule([1, 2, 3, 5, 6, 7, 1, 2] * 2), seed=7)
    assert theirs == [ours.throughput.hex(), ours.slice_counters.tobytes().hex()]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"queries": 0}, DescriptionError, "queries = 0"),
        ({"line_sampling": 1.5}, DescriptionError, "line_sampling = 1.5"),
        ({"page_sampling": True}, DescriptionError, "page_sampling = True"),
        ({"records": 0}, DescriptionError, "records = 0"),
        ({"numa_balancing": 1}, DescriptionError, "numa_balancing = 1"),
        ({"overhead_cycles": "a"}, DescriptionError, "overhead_cycles = 'a'"),
        ({"dispatch": "ideel"}, UnknownNameError, "Did you mean 'ideal'"),
        ({"seconds": 1}, UnsupportedError, "takes no option 'seconds'; it takes records, queries"),
        ({"machine": "host"}, DescriptionError, "no parameters"),
    ],
)
def test_impossible_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        make(**options)


def test_what_cannot_be_run_is_refused(backend):
    with pytest.raises(ScheduleError, match="exactly 16"):
        backend.measure(backend.machine.local_schedule([1]), seed=0)
    with pytest.raises(DescriptionError, match="on core 99"):
        backend.set_instance(Instance(0, (CoTenant("busy_core", 99, 0.5),)))
    huge = make(records=10**10, line_sampling=64)
    with pytest.raises(BackendError, match=r"records needs about .* GiB of memory"):
        huge.measure(schedule_of(huge), seed=0)


def test_more_cores_than_the_model_holds_are_refused_before_anything_is_recorded(monkeypatch):
    described = tomllib.loads((PRESETS / "toy.toml").read_text())
    described["topology"] |= {"cores_per_node": 600, "cores_per_llc": 100, "grid": [30, 40]}
    big = make(machine=Machine.from_dict(described))
    monkeypatch.setattr(_native.IndexKind, "record", None)
    with pytest.raises(BackendError, match="cores = 1200: the simulator holds at most 1024"):
        big.measure(schedule_of(big), seed=0)


def test_long_work_is_reported(monkeypatch):
    monkeypatch.setattr("pmoss_env.backends.reporting.REPORT_AFTER", 0.0)
    monkeypatch.setattr("pmoss_env.backends.reporting.REPORT_EVERY", 0.001)
    reported = []
    backend = make(
        records=500_000, queries=200_000, progress=lambda what, seconds: reported.append(what)
    )
    backend.trace()
    assert set(reported) == {"recording 200,000 queries on 500,000 records"}
