"""YCSB's core workloads on every backend."""

from dataclasses import replace

import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.backends import Backend, make_backend
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.types import HardwareSnapshot
from pmoss_env.workloads import load_workload

CORE = [f"ycsb-core-{letter}" for letter in "abcdef"]
SMALL = {
    "analytic": {"machine": "toy", "slices": 8},
    "simulated": {"machine": "toy", "slices": 8, "records": 50_000, "queries": 5_000},
    "hardware": {
        **{"machine": "host", "slices": 8, "records": 20_000},
        **{"seconds": 0.1, "warmup_seconds": 0.02, "own_process": False},
    },
}


def measured(backend: Backend) -> HardwareSnapshot:
    workers = np.resize(backend.machine.workers, backend.slices)
    try:
        return backend.measure(backend.machine.local_schedule(workers), seed=0)
    finally:
        backend.close()


@pytest.mark.parametrize("name", CORE)
@pytest.mark.parametrize("backend", SMALL)
def test_every_backend_serves_them(name: str, backend: str) -> None:
    snapshot = measured(make_backend(backend, workload=name, **SMALL[backend]))
    assert snapshot.throughput > 0
    if backend == "hardware":
        assert snapshot.latency_p99_us <= snapshot.latency_p999_us <= snapshot.latency_max_us
    else:
        assert np.isnan(snapshot.latency_max_us)


def drawn(name: str, count: int = 30_000) -> dict[str, np.ndarray]:
    spec = native_workload(replace(load_workload(name), records=10_000))
    return _native.OperationGenerator(spec, 1).draw(count)


def test_a_and_b_write_no_new_key() -> None:
    for name in ("ycsb-core-a", "ycsb-core-b", "ycsb-core-f"):
        spec = native_workload(replace(load_workload(name), records=10_000))
        loaded = spec.keys_of_records(np.arange(10_000))
        assert np.isin(drawn(name)["key"], loaded).all()


def test_f_reads_each_record_before_it_writes_it() -> None:
    operations = drawn("ycsb-core-f")
    updates = np.flatnonzero(operations["kind"] == 3)
    assert updates.size == pytest.approx(10_000, rel=0.05)
    assert (operations["kind"][updates - 1] == 0).all()
    assert (operations["key"][updates - 1] == operations["key"][updates]).all()


def test_the_model_serves_a_read_modify_write_as_two_operations() -> None:
    mixes = {"f": {}, "two": {"lookup": 2 / 3, "update": 1 / 3, "read_modify_write": 0.0}}
    rates = {}
    for name, shares in mixes.items():
        workload = replace(load_workload("ycsb-core-f"), **shares)
        rates[name] = measured(make_backend("analytic", workload=workload, **SMALL["analytic"]))
    assert rates["f"].throughput == pytest.approx(rates["two"].throughput, rel=1e-12)
