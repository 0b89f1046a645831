import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.backends import make_backend
from pmoss_env.baselines import Context, longest_first, make_baseline, slice_load
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_INDEX, CoTenant, Instance


def best_makespan(load, workers):
    return min(
        np.bincount(place, load, workers).max()
        for place in itertools.product(range(workers), repeat=load.size)
    )


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6), st.integers(1, 3))
@settings(max_examples=60)
def test_lpt_is_within_grahams_bound(values, workers):
    load = np.array(values)
    machine = load_machine("toy")
    # The toy machine with fewer workers.
    kept = set(machine.workers[:workers].tolist())
    roles = tuple("worker" if core in kept else "other" for core in range(machine.cores))
    machine = replace(machine, role_of_core=roles)
    schedule = longest_first(load, machine)
    machine.check_schedule(schedule, load.size)
    makespan = np.bincount(schedule.cores, load).max()
    bound = 4 / 3 - 1 / (3 * workers)
    assert makespan <= bound * best_makespan(load, workers) + 1e-9


def test_lpt_reads_the_task_clock_or_the_queries(a_context):
    context = a_context()
    assert np.array_equal(slice_load(context.snapshot), context.snapshot.counter("task_clock_us"))
    available = context.snapshot.counters_available.copy()
    available[COUNTER_INDEX["task_clock_us"]] = False
    blind = replace(context.snapshot, counters_available=available)
    assert np.array_equal(slice_load(blind), blind.counter("queries"))


def test_capacity_aware_lpt_spares_a_slow_core_and_plain_lpt_does_not() -> None:
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=64)
    slow = int(backend.machine.workers[2])
    backend.set_instance(Instance(3, (CoTenant("busy_core", slow, 0.6),)))
    incumbent = make_baseline("spread")(Context(backend.machine, 64))
    snapshot = backend.measure(incumbent, seed=0)
    context = Context(backend.machine, 64, incumbent, snapshot)
    busy = {}
    throughput = {}
    for name in ("lpt", "lpt-capacity"):
        schedule = make_baseline(name)(context)
        busy[name] = slice_load(snapshot)[schedule.cores == slow].sum()
        throughput[name] = backend.measure(schedule, seed=0).throughput
    assert busy["lpt-capacity"] < 0.5 * busy["lpt"]
    assert throughput["lpt-capacity"] > 1.3 * throughput["lpt"]


def test_capacity_aware_lpt_needs_both_times() -> None:
    with pytest.raises(UnsupportedError, match="lpt-capacity"):
        make_baseline("lpt-capacity")(Context(load_machine("toy"), 8))
