"""The error card: analytic against simulated throughput over stratified schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from pmoss_benchmarks.spatial.combinations import Combined, model_and_server
from pmoss_benchmarks.study.function import Cell, Count, Row, Run
from pmoss_env.backends import IncrementalBackend
from pmoss_env.backends.base import Backend
from pmoss_env.baselines import (
    SHARED_BASELINES,
    Context,
    grouped,
    in_runs,
    longest_first,
    lpt,
    random,
    slice_load,
)
from pmoss_env.errors import DescriptionError
from pmoss_env.extras import require
from pmoss_env.interference import draw_co_tenants
from pmoss_env.types import Float64Array, Instance, Schedule

#: A move counts if it changes the simulated throughput by more than this share.
MOVE_THRESHOLD = 0.005
#: What the project wants of every row: at most these errors and regret, at least the others.
GOALS = {
    "median_error": 0.05,
    "p95_error": 0.12,
    "tau": 0.90,
    "regret": 0.01,
    "sign_agreement": 0.90,
}


@dataclass(frozen=True)
class Settings(Combined):
    """What the rows depend on.

    Attributes:
        schedules: stratified schedules per cell.
        moves: single-slice moves per cell.
        slices: of the index.
        seed: of the schedules, the moves and the workload instance.
        simulated: options of the simulated backend.
    """

    schedules: Count = 100
    moves: int = 60
    slices: Count = 256
    seed: int = 1
    simulated: dict[str, Any] | None = None


def cells(settings: Settings) -> list[Cell]:
    """Every machine under every workload."""
    return settings.cells()


def measure(run: Run, cell: Cell) -> Row:
    """The card of one cell; times are CPU seconds."""
    options = run.settings
    analytic, simulated = model_and_server(cell, options.slices, options.simulated)
    rng = np.random.default_rng(options.seed)
    instance = Instance(options.seed, draw_co_tenants(cell["interference"], analytic.machine, rng))
    start = process_time()
    for backend in (analytic, simulated):
        backend.set_instance(instance)
    prepared = process_time() - start

    incumbent = grouped(Context(analytic.machine, options.slices))
    snapshot = analytic.measure(incumbent, seed=0)
    context = Context(analytic.machine, options.slices, incumbent, snapshot, rng)
    drawn = stratified(context, options.schedules)
    model = np.array([analytic.place(schedule) for _, schedule in drawn])
    start = process_time()
    server = np.array([_throughput(simulated, schedule) for _, schedule in drawn])
    seconds = (process_time() - start) / len(drawn)
    changes = _moves(analytic, simulated, context, options.moves)
    noise = [
        abs(simulated.measure(schedule, seed=7).throughput / x - 1)
        for (_, schedule), x in list(zip(drawn, server, strict=True))[::10]
    ]
    analytic.close()
    simulated.close()
    return {
        **card(model, server, changes),
        "seed_noise": float(np.median(noise)),
        "prepare_seconds": round(prepared, 2),
        "simulate_seconds": round(seconds, 3),
        "strata": [name for name, _ in drawn],
        "analytic": [float(f"{x:.5g}") for x in model],
        "simulated": [float(f"{x:.5g}") for x in server],
    }


def card(model: Float64Array, server: Float64Array, changes: Float64Array) -> dict[str, Any]:
    """The statistics of one cell.

    Args:
        model: (n,) analytic throughputs, Mq/s.
        server: (n,) simulated throughputs of the same schedules, Mq/s.
        changes: (moves, 2) relative changes by single moves, analytic and simulated.
    """
    error = model / server - 1
    chosen = int(model.argmax())
    counted = changes[np.abs(changes[:, 1]) > MOVE_THRESHOLD]
    agreement = np.mean(np.sign(counted[:, 0]) == np.sign(counted[:, 1])) if counted.size else None
    return {
        "schedules": int(model.size),
        "median_error": float(np.median(np.abs(error))),
        "p95_error": float(np.quantile(np.abs(error), 0.95)),
        "bias": float(np.median(error)),
        "tau": kendall_tau(model, server),
        "regret": float(1 - server[chosen] / server.max()),
        "spread": float(server.max() / server.min()),
        "moves": int(counted.shape[0]),
        "sign_agreement": None if agreement is None else float(agreement),
    }


def kendall_tau(a: Float64Array, b: Float64Array) -> float:
    """Kendall's tau-b; 0 where one of both does not vary.

    On a machine of one node some strata give the same schedule again and again.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    require("scipy")
    from scipy.stats import kendalltau

    tau = float(kendalltau(a, b, variant="b").statistic)
    return 0.0 if math.isnan(tau) else tau


def _throughput(backend: Backend, schedule: Schedule) -> float:
    return backend.measure(schedule, seed=0).throughput


def _moves(
    analytic: IncrementalBackend, simulated: Backend, context: Context, count: int
) -> Float64Array:
    """(count, 2) relative changes of throughput by moves of single, mostly heavy slices."""
    machine, rng = context.machine, context.rng
    assert context.snapshot is not None
    load = slice_load(context.snapshot)
    bases = [s for name, s in stratified(context, 25) if name in ("random", "runs", "balanced")]
    before = [(analytic.place(base), _throughput(simulated, base)) for base in bases]
    changes = np.empty((count, 2))
    for i in range(count):
        base = bases[i % len(bases)]
        # Slices that matter, many of them on the busiest core: the others change nothing that can
        # be measured.
        busiest = int(np.bincount(base.cores, load, machine.cores).argmax())
        weight = np.where(base.cores == busiest, load, 0.0) if i % 2 else load**2
        s = int(rng.choice(context.slices, p=weight / weight.sum()))
        cores = base.cores.copy()
        cores[s] = rng.choice(machine.workers[machine.workers != cores[s]])
        moved = machine.local_schedule(cores)
        old_model, old_server = before[i % len(bases)]
        changes[i] = (
            analytic.place(moved) / old_model - 1,
            _throughput(simulated, moved) / old_server - 1,
        )
    return changes


def missed(row: Mapping[str, Any]) -> list[str]:
    """The fields of a row that do not reach what the project wants."""
    at_least = ("tau", "sign_agreement")
    return [
        field
        for field, goal in GOALS.items()
        if row[field] is not None
        and (row[field] < goal if field in at_least else row[field] > goal)
    ]


#: Share of the workers that the schedules of "few_cores" use.
FEWEST_WORKERS = 0.3


def _runs(context: Context) -> Schedule:
    """Grouped, Spread and what lies between, from a random slice on."""
    longest = max(1, context.slices // context.machine.nodes)
    run = int(2 ** context.rng.uniform(0, np.log2(longest)))
    shift = int(context.rng.integers(context.slices))
    return context.machine.local_schedule(np.roll(in_runs(context, run).cores, shift))


def _balanced(context: Context) -> Schedule:
    """LPT, with some of the slices moved at random."""
    cores = lpt(context).cores.copy()
    moved = context.rng.permutation(context.slices)[: int(2 ** context.rng.uniform(0, 6)) - 1]
    cores[moved] = context.rng.choice(context.machine.workers, size=moved.size)
    return context.machine.local_schedule(cores)


def _far_data(context: Context) -> Schedule:
    """Random cores, data on random nodes: the affinity of the published learned schedules."""
    nodes = context.rng.integers(context.machine.nodes, size=context.slices, dtype=np.int32)
    return Schedule(random(context).cores, nodes)


def _hot_node(context: Context) -> Schedule:
    """Balanced cores, most of the data on one node."""
    schedule = lpt(context)
    away = context.rng.random(context.slices) < context.rng.uniform(0.5, 1.0)
    node = int(context.rng.integers(context.machine.nodes))
    return Schedule(schedule.cores, np.where(away, node, schedule.nodes))


def _few_cores(context: Context) -> Schedule:
    """Balanced over only some of the workers, in a random part of the machine."""
    machine = context.machine
    least = max(1, int(FEWEST_WORKERS * machine.workers.size))
    count = int(context.rng.integers(least, machine.workers.size, endpoint=True))
    chosen = np.roll(machine.workers, int(context.rng.integers(machine.workers.size)))[:count]
    assert context.snapshot is not None
    # Places by rank among the chosen workers, as on a machine that had only these.
    load = slice_load(context.snapshot)
    total = np.zeros(count)
    cores = np.empty(context.slices, dtype=np.int32)
    for s in np.argsort(-load, kind="stable"):
        w = int(total.argmin())
        cores[s] = chosen[w]
        total[w] += load[s]
    return machine.local_schedule(cores)


def _uneven(context: Context) -> Schedule:
    """Balanced for core speeds that the machine does not have."""
    assert context.snapshot is not None
    speed = np.exp(context.rng.normal(0.0, 0.6, context.machine.cores))
    return longest_first(slice_load(context.snapshot), context.machine, None, speed)


#: Strata of core-affine schedules by name.
STRATA: Mapping[str, Callable[[Context], Schedule]] = {
    "random": random,
    "runs": _runs,
    "balanced": _balanced,
    "far_data": _far_data,
    "hot_node": _hot_node,
    "few_cores": _few_cores,
    "uneven": _uneven,
}


def stratified(context: Context, count: int) -> list[tuple[str, Schedule]]:
    """``count`` schedules and their strata: the shared ones once, the others in equal parts.

    Args:
        context: needs ``snapshot`` and ``rng``.
        count: how many, at least one of each.
    """
    least = len(STRATA) + len(SHARED_BASELINES)
    if count < least:
        raise DescriptionError(f"schedules = {count}: must be at least {least}, one of each kind")
    schedules = [(name, baseline(context)) for name, baseline in SHARED_BASELINES.items()]
    kinds = list(STRATA.items())
    for i in range(count - len(SHARED_BASELINES)):
        name, draw = kinds[i % len(kinds)]
        schedules.append((name, draw(context)))
    return schedules
