"""No schedule is faster than its bound, and no slice than its least time."""

import numpy as np
import pytest

pytest.importorskip("scipy")

from pmoss_benchmarks.spatial.bound import LeastTimes, upper_bound
from pmoss_env.backends import make_backend
from pmoss_env.errors import UnsupportedError
from pmoss_env.interference import draw_co_tenants
from pmoss_env.types import Instance


@pytest.mark.parametrize(
    ("machine", "workload", "family"),
    [
        ("toy", "ycsb-a", "busy_core"),
        ("toy", "scans", "cache_thrash"),
        ("milan-nps4", "scans", "cache_thrash"),
        ("skylake-x-8n", "ycsb-a", "memory_stream"),
    ],
)
def test_no_slice_is_ever_faster_than_its_least_time(machine, workload, family):
    slices = 40
    backend = make_backend("analytic", machine=machine, workload=workload, slices=slices)
    described, rng = backend.machine, np.random.default_rng(0)
    instance = Instance(5, draw_co_tenants(family, described, rng))
    backend.set_instance(instance)
    least = LeastTimes(described, backend.workload, slices, backend.load)
    times, bound = least.of(instance), upper_bound(least, instance)
    column = np.full(described.cores, -1)
    column[described.workers] = np.arange(described.workers.size)
    for draw in range(60):
        few = rng.choice(described.workers, 1 + draw % described.workers.size)
        cores = rng.choice(few, slices).astype(np.int32)
        snapshot = backend.measure(described.local_schedule(cores), seed=0)
        spent = snapshot.counter("elapsed_us") / snapshot.throughput
        assert (spent >= times[np.arange(slices), column[cores]] * (1 - 1e-6)).all()
        assert snapshot.throughput <= bound


@pytest.mark.parametrize("name", ["grace-hopper", "grace-hopper-mesh"])
def test_a_bound_of_one_shared_cache_is_not_known(name: str) -> None:
    backend = make_backend("analytic", machine=name, workload="ycsb-a", slices=8)
    with pytest.raises(UnsupportedError, match="share one last-level cache"):
        LeastTimes(backend.machine, backend.workload, 8, backend.load)


def test_a_bound_of_another_load_is_not_known() -> None:
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=8, load="saturated")
    with pytest.raises(UnsupportedError, match="closed load"):
        LeastTimes(backend.machine, backend.workload, 8, backend.load)
