"""The error card: analytic against simulated throughput over stratified schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from pmoss_benchmarks.cells import Cell
from pmoss_benchmarks.simulation import model_and_server
from pmoss_benchmarks.spatial.fidelity.schedules import stratified
from pmoss_env.backends import IncrementalBackend
from pmoss_env.backends.base import Backend
from pmoss_env.baselines import Context, grouped, slice_load
from pmoss_env.extras import require
from pmoss_env.interference import draw_co_tenants
from pmoss_env.types import Float64Array, Instance, Schedule

#: A move counts if it changes the simulated throughput by more than this share.
MOVE_THRESHOLD = 0.005
#: What the project wants of every cell: the field, the required value, the aim.
GOALS = (
    ("median_error", 0.05, 0.03),
    ("p95_error", 0.12, 0.08),
    ("tau", 0.90, 0.95),
    ("regret", 0.01, 0.005),
    ("sign_agreement", 0.90, 0.95),
)


@dataclass(frozen=True)
class FidelityOptions:
    """What a card depends on.

    Attributes:
        schedules: stratified schedules per cell.
        moves: single-slice moves per cell.
        slices: of the index.
        seed: of the schedules, the moves and the workload instance.
        simulated: options of the simulated backend.
    """

    schedules: int = 100
    moves: int = 60
    slices: int = 256
    seed: int = 1
    simulated: dict[str, Any] | None = None


def measure_cell(options: FidelityOptions, cell: Cell) -> dict[str, Any]:
    """The card of one cell; times are CPU seconds."""
    analytic, simulated = model_and_server(cell, options.slices, options.simulated)
    rng = np.random.default_rng(options.seed)
    instance = Instance(options.seed, draw_co_tenants(cell.interference, analytic.machine, rng))
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


@dataclass(frozen=True)
class Reached:
    """How many cells reach a goal.

    Attributes:
        field: of the cells.
        median: over the cells that have the field.
        at_least: whether large values are good.
        required: of every cell.
        aim: what the project would like.
        inside: cells that reach the required value.
        cells: that have the field.
    """

    field: str
    median: float
    at_least: bool
    required: float
    aim: float
    inside: int
    cells: int


def goals_reached(cells: Sequence[dict[str, Any]]) -> list[Reached]:
    """Each of GOALS, held against the cells."""
    found = []
    medians = summary(cells)
    for field, required, aim in GOALS:
        at_least = field in ("tau", "sign_agreement")
        values = [cell[field] for cell in cells if cell[field] is not None]
        inside = sum(value >= required if at_least else value <= required for value in values)
        found.append(Reached(field, medians[field], at_least, required, aim, inside, len(values)))
    return found


def summary(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The median over cells of every field that has a goal."""
    result = {}
    for field, _, _ in GOALS:
        values = [cell[field] for cell in cells if cell[field] is not None]
        result[field] = float(np.median(values)) if values else float("nan")
    return result
