from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.backends.base import IncrementalBackend, make_backend
from pmoss_env.baselines import (
    BASELINES,
    STATIC_BASELINES,
    Context,
    core_speed,
    in_runs,
    local_search,
    longest_first,
    make_baseline,
    slice_load,
)
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.interference import draw_neighbours
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_INDEX, Instance, Neighbour

MACHINES = ("toy", "milan-nps4", "skylake-x-8n")
machines = st.sampled_from(MACHINES).map(load_machine)
slice_counts = st.integers(1, 300)
seeds = st.integers(0, 2**32)


def a_context(
    machine="toy", slices=12, seed=0, load="closed", interference="busy_core", **constraints
):
    """A context with an incumbent, its snapshot and a counting backend."""
    machine = load_machine(machine)
    backend = make_backend("analytic", machine=machine, workload="ycsb-a", slices=slices, load=load)
    rng = np.random.default_rng(seed)
    backend.set_instance(Instance(seed, draw_neighbours(interference, machine, rng)))
    incumbent = make_baseline("random")(Context(machine, slices, rng=rng))
    return Context(
        machine,
        slices,
        incumbent,
        backend.measure(incumbent, seed=0),
        rng,
        Counting(backend),
        **constraints,
    )


class Counting:
    """Counts what a search asks of a backend."""

    def __init__(self, backend):
        self._backend = backend
        self.calls = 0
        for name in ("name", "machine", "workload", "slices", "load"):
            setattr(self, name, getattr(backend, name))

    def _counted(self, method, *args, **kwargs):
        self.calls += 1
        return getattr(self._backend, method)(*args, **kwargs)

    def set_instance(self, instance):
        self._backend.set_instance(instance)

    def measure(self, schedule, *, seed):
        return self._counted("measure", schedule, seed=seed)

    def place(self, schedule):
        return self._counted("place", schedule)

    def move(self, slice_, core):
        return self._counted("move", slice_, core)

    def marginal(self, slice_):
        return self._counted("marginal", slice_)

    def close(self):
        self._backend.close()


@given(st.sampled_from(sorted(BASELINES)), st.sampled_from(MACHINES), st.integers(1, 80), seeds)
@settings(deadline=None, max_examples=60)
def test_every_baseline_gives_a_schedule_that_the_machine_runs(name, machine, slices, seed):
    context = a_context(machine, slices, seed)
    schedule = make_baseline(name)(context)
    context.machine.check_schedule(schedule, slices)
    assert np.array_equal(schedule.nodes, context.machine.node_of_core[schedule.cores])


@given(machines, slice_counts, seeds)
@settings(deadline=None)
def test_static_baselines_need_no_measurement_and_repeat(machine, slices, seed):
    for name in STATIC_BASELINES:
        one, other = (
            make_baseline(name)(Context(machine, slices, rng=np.random.default_rng(seed)))
            for _ in range(2)
        )
        assert one == other
        machine.check_schedule(one, slices)


@given(machines, slice_counts)
@settings(deadline=None)
def test_grouped_keeps_neighbours_together_and_cores_in_turn(machine, slices):
    schedule = make_baseline("grouped")(Context(machine, slices))
    # One run per node at most, in node order, and the runs are as even as can be.
    assert np.all(np.diff(schedule.nodes) >= 0)
    runs = np.bincount(schedule.nodes)
    assert runs.max() == math.ceil(slices / machine.nodes)
    for node in range(machine.nodes):
        cores = schedule.cores[schedule.nodes == node]
        workers = machine.workers[machine.node_of_core[machine.workers] == node]
        assert np.array_equal(cores, np.resize(workers, cores.size))


@given(machines, slice_counts)
@settings(deadline=None)
def test_spread_parts_neighbours(machine, slices):
    schedule = make_baseline("spread")(Context(machine, slices))
    assert np.all(np.diff(schedule.nodes) != 0)
    counts = np.bincount(schedule.cores, minlength=machine.cores)[machine.workers]
    assert counts.max() - counts.min() <= 1 or machine.name != "toy"
    nodes = np.bincount(schedule.nodes, minlength=machine.nodes)
    assert nodes.max() - nodes.min() <= 1


def test_mixed_is_the_papers_for_its_256_slices_and_between_the_others():
    machine = load_machine("skylake-x-8n")
    context = Context(machine, 256)
    mixed = make_baseline("mixed")(context)
    assert mixed == in_runs(context, 16)
    lengths = [len(list(run)) for _, run in itertools.groupby(mixed.nodes)]
    assert lengths == [16] * 16
    assert list(mixed.nodes[::16]) == list(range(8)) * 2
    # 56 workers, 256 slices: 4 or 5 slices per core, as in the published files.
    assert set(np.bincount(mixed.cores)[machine.workers]) == {4, 5}
    changes = [
        np.count_nonzero(np.diff(make_baseline(name)(context).nodes))
        for name in ("grouped", "mixed", "spread")
    ]
    assert changes == [7, 15, 255]
    with pytest.raises(DescriptionError, match="run = 0"):
        in_runs(context, 0)


def test_random_uses_all_workers_evenly():
    machine = load_machine("toy")
    schedule = make_baseline("random")(Context(machine, 6000))
    counts = np.bincount(schedule.cores, minlength=8)
    assert counts[~machine.worker_mask].sum() == 0
    assert np.all(abs(counts[machine.worker_mask] - 1000) < 150)


@pytest.mark.parametrize("name", ["random", "lpt", "greedy", "greedy-capacity", "local-search"])
@pytest.mark.parametrize("most", [2, 3])
def test_baselines_obey_the_constraint(name, most):
    for seed in range(5):
        context = a_context(slices=12, seed=seed, max_slices_per_core=most)
        counts = np.bincount(make_baseline(name)(context).cores)
        assert counts.max() <= most
        assert counts.sum() == 12


def best_makespan(load, workers):
    return min(
        np.bincount(place, load, workers).max()
        for place in itertools.product(range(workers), repeat=load.size)
    )


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6), st.integers(1, 3))
@settings(deadline=None, max_examples=60)
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


def test_lpt_spreads_equal_loads_and_obeys_the_constraint():
    machine = load_machine("toy")
    idle = longest_first(np.zeros(12), machine)
    assert set(np.bincount(idle.cores)[machine.workers]) == {2}
    # One slice outweighs the others, so that LPT would leave its core alone.
    load = np.array([100.0] + [1.0] * 11)
    assert np.bincount(longest_first(load, machine).cores).max() == 3
    bound = longest_first(load, machine, max_slices_per_core=2)
    assert set(np.bincount(bound.cores)[machine.workers]) == {2}


def test_lpt_reads_the_task_clock_or_the_queries():
    context = a_context()
    assert np.array_equal(slice_load(context.snapshot), context.snapshot.counter("task_clock_us"))
    available = context.snapshot.counters_available.copy()
    available[COUNTER_INDEX["task_clock_us"]] = False
    blind = replace(context.snapshot, counters_available=available)
    assert np.array_equal(slice_load(blind), blind.counter("queries"))


@given(st.sampled_from(["closed", "saturated", "open:3"]), st.integers(1, 200), seeds)
@settings(deadline=None, max_examples=40)
def test_search_is_never_worse_than_its_start_and_within_budget(load, budget, seed):
    context = a_context(slices=16, seed=seed, load=load)
    backend = context.backend
    assert isinstance(backend, IncrementalBackend)
    for start in (None, context.incumbent):
        begin = make_baseline("lpt")(context) if start is None else start
        at_start = backend.place(begin)
        backend.calls = 0
        result = local_search(context, budget, start)
        assert result.evaluations == backend.calls <= budget
        assert result.throughput >= at_start
        assert backend.place(result.schedule) == result.throughput
        context.machine.check_schedule(result.schedule, 16)


def test_search_finds_the_optimum_of_a_small_instance():
    for seed in range(3):
        context = a_context(slices=5, seed=seed)
        _, best = context.backend._backend.best_by_enumeration()
        assert local_search(context, 500).throughput == pytest.approx(best, rel=1e-6)


def test_search_sees_the_neighbours_that_lpt_does_not():
    context = a_context("skylake-x-8n", 256, seed=1)
    lpt = context.backend.place(make_baseline("lpt")(context))
    assert local_search(context, 500).throughput > 1.3 * lpt


def test_more_budget_is_never_worse_and_a_seed_repeats():
    found = []
    for budget in (1, 10, 100, 400, 400):
        context = a_context("milan-nps4", 64, seed=4)
        found.append(local_search(replace(context, rng=np.random.default_rng(8)), budget))
    throughputs = [result.throughput for result in found]
    assert throughputs == sorted(throughputs)
    assert throughputs[0] < throughputs[-1]
    assert found[-1] == found[-2]


def test_search_keeps_data_that_it_does_not_touch():
    context = a_context(slices=8)
    remote = replace(context.incumbent, nodes=1 - context.incumbent.nodes)
    result = local_search(context, 40, remote)
    assert context.backend.place(result.schedule) == result.throughput


def test_what_is_missing_is_named():
    bare = Context(load_machine("toy"), 8)
    for name, words in (("lpt", "snapshot"), ("incumbent", "incumbent"), ("local-search", "move")):
        with pytest.raises(UnsupportedError, match=words):
            make_baseline(name)(bare)
    with pytest.raises(UnknownNameError, match="Did you mean 'grouped'"):
        make_baseline("group")
    with pytest.raises(UnsupportedError, match="no budget"):
        make_baseline("lpt", budget=5)
    with pytest.raises(DescriptionError, match="budget = 0"):
        local_search(a_context(), 0)
    backend = a_context().backend
    assert make_baseline("local-search", budget=7)(replace(a_context(), backend=backend))
    assert backend.calls <= 7


def test_capacity_aware_lpt_spares_a_slow_core_and_plain_lpt_does_not() -> None:
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=64)
    slow = int(backend.machine.workers[2])
    backend.set_instance(Instance(3, (Neighbour("busy_core", slow, 0.6),)))
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


@pytest.mark.parametrize("capacity", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_greedy_is_the_least_loaded_rule_in_placement_order(capacity, ordered):
    for seed in range(5):
        context = a_context(seed=seed)
        snapshot, incumbent, machine = context.snapshot, context.incumbent, context.machine
        work = slice_load(snapshot)
        order = np.argsort(-work, kind="stable")
        if ordered:
            order = np.random.default_rng(seed).permutation(context.slices).astype(np.int32)
            context = replace(context, order=order)
        schedule = make_baseline("greedy-capacity" if capacity else "greedy")(context)
        speed = np.ones(machine.cores)
        if capacity:
            for core in machine.workers:
                mine = incumbent.cores == core
                if mine.any():
                    busy = snapshot.counter("task_clock_us")[mine].sum()
                    speed[core] = busy / snapshot.counter("elapsed_us")[mine].sum()
        load = np.zeros(machine.cores)
        for slice_ in order:
            end = ((load + work[slice_]) / speed)[machine.workers]
            core = schedule.cores[slice_]
            assert (load[core] + work[slice_]) / speed[core] == pytest.approx(end.min(), rel=1e-9)
            load[core] += work[slice_]


def test_greedy_lets_chance_choose_between_equals():
    context = a_context(slices=1)
    drawn = {
        int(make_baseline("greedy")(replace(context, rng=np.random.default_rng(s))).cores[0])
        for s in range(60)
    }
    assert drawn == set(context.machine.workers.tolist())


def test_core_speed_needs_both_times_and_takes_idle_cores_for_undisturbed():
    context = a_context(slices=3)
    speed = core_speed(context)
    served = np.isin(np.arange(context.machine.cores), context.incumbent.cores)
    assert np.all(speed[~served] == 1)
    assert np.all((speed[served] > 0) & (speed[served] <= 1))
    available = context.snapshot.counters_available.copy()
    available[COUNTER_INDEX["elapsed_us"]] = False
    blind = replace(context, snapshot=replace(context.snapshot, counters_available=available))
    assert core_speed(blind) is None
    alike = [replace(blind, rng=np.random.default_rng(1)) for _ in range(2)]
    assert make_baseline("greedy-capacity")(alike[0]) == make_baseline("greedy")(alike[1])
    with pytest.raises(UnsupportedError, match="lpt-capacity"):
        make_baseline("lpt-capacity")(blind)
    for name in ("greedy", "greedy-capacity"):
        with pytest.raises(UnsupportedError, match=f"'{name}' needs the incumbent's snapshot"):
            make_baseline(name)(Context(context.machine, 3))
