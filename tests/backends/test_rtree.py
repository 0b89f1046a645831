"""The R-tree on the backends."""

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import load_machine


def test_the_simulated_server_runs_ranges_on_points() -> None:
    machine = load_machine("skylake-x-8n")
    backend = make_backend(
        "simulated",
        machine=machine,
        workload="rtree-ranges",
        index="rtree",
        slices=64,
        records=200_000,
        queries=20_000,
        line_sampling=8,
    )
    workers = np.flatnonzero(machine.worker_mask)
    spread = machine.local_schedule(workers[np.arange(64) % workers.size])
    alone = machine.local_schedule(np.full(64, workers[0]))
    fast = backend.measure(spread, seed=1)
    assert fast.throughput > 4 * backend.measure(alone, seed=1).throughput
    assert backend.measure(spread, seed=1).throughput == fast.throughput
    # Cells of sea get no queries.
    assert (fast.slice_throughput == 0).any()
    backend.close()


@pytest.mark.parametrize("name", ["analytic", "hardware"])
def test_other_backends_refuse_it(name: str) -> None:
    with pytest.raises(UnsupportedError, match="cannot run index='rtree'; simulated can"):
        make_backend(name, machine="skylake-x-8n", workload="rtree-ranges", index="rtree")


def test_the_workload_must_be_for_the_index() -> None:
    with pytest.raises(UnsupportedError, match="'rtree-ranges' is for index='rtree'"):
        make_backend("simulated", machine="skylake-x-8n", workload="rtree-ranges")
