"""Fidelity of the model, and headroom of a search."""

from pathlib import Path

import numpy as np

from pmoss_benchmarks.functions import headroom, logged_pairs
from pmoss_benchmarks.functions.fidelity import STRATA, Settings, cells, measure, stratified
from pmoss_benchmarks.study.function import Run
from pmoss_datasets.suite import MEASURED
from pmoss_env.backends import make_backend
from pmoss_env.baselines import Context, grouped


def context(machine: str = "skylake-x-8n", slices: int = 256) -> Context:
    backend = make_backend("analytic", machine=machine, workload="ycsb-a", slices=slices)
    incumbent = grouped(Context(backend.machine, slices))
    snapshot = backend.measure(incumbent, seed=0)
    return Context(backend.machine, slices, incumbent, snapshot, np.random.default_rng(3), backend)


def test_schedules_of_every_stratum_can_run_and_differ() -> None:
    ctx = context()
    drawn = stratified(ctx, 60)
    assert len(drawn) == 60
    assert {name for name, _ in drawn} >= set(STRATA)
    for _, schedule in drawn:
        ctx.machine.check_schedule(schedule, 256)
    assert len({schedule for _, schedule in drawn}) >= 55
    hot = [s for name, s in drawn if name == "hot_node"]
    assert all(np.bincount(s.nodes).max() >= 128 for s in hot)
    few = [s for name, s in drawn if name == "few_cores"]
    assert min(np.unique(s.cores).size for s in few) < 45


def test_a_small_cell_is_measured_the_same_twice() -> None:
    simulated = {"queries": 20_000, "line_sampling": 1}
    settings = Settings(("toy",), schedules=11, moves=6, slices=8, simulated=simulated)
    (cell,) = cells(settings)
    run = Run(settings, Path(), Path(), Path())
    first, second = (measure(run, cell) for _ in range(2))
    for result in (first, second):
        del result["prepare_seconds"], result["simulate_seconds"]
    assert first == second and first["schedules"] == 11
    assert first["median_error"] < 0.5


def test_search_is_never_worse_than_what_it_starts_from() -> None:
    worlds = {"machines": ("toy",), "workloads": ("ycsb-a",), "interference": ("busy_core",)}
    few = {"instances": 2, "confirmed": 1, "random_schedules": 3, "budget": 200, "slices": 8}
    simulated = {"queries": 20_000, "line_sampling": 1}
    settings = headroom.Settings(**worlds, **few, simulated=simulated)
    run = Run(settings, Path(), Path(), Path())
    (cell,) = headroom.cells(settings)
    row = headroom.measure(run, cell)
    assert row["search"] >= row["rule"] >= 0
    assert row["simple"] > 0 and row["simulated_simple"] > 0
    assert row["headroom"] >= row["headroom_over_rules"] - 1e-12
    assert row == headroom.measure(run, cell)


def test_a_rule_knows_which_of_two_schedules_served_more_on_a_host() -> None:
    settings = logged_pairs.Settings(next(iter(MEASURED)), ("best-fit", "same times"), 60)
    run = Run(settings, Path(), Path(), Path())
    rule, kept = (logged_pairs.measure(run, cell) for cell in logged_pairs.cells(settings))
    assert 0 < rule["clear"] < rule["pairs"] < 60
    assert rule["clear_right"] > 0.8 > kept["clear_right"]
