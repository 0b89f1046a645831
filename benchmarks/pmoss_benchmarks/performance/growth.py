"""How the cost of an answer grows with slices, cores and environments."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

import gymnasium
import numpy as np

import pmoss_env  # noqa: F401  # registers the environments
from pmoss_benchmarks.report import Figure, seconds_of
from pmoss_env.backends import make_backend
from pmoss_env.backends.analytic import AnalyticBackend
from pmoss_env.machines import load_machine

SLICES = (64, 256, 1024, 4096)
#: By their number of cores.
MACHINES = ("toy", "rome-7302", "milan-nps4", "uv-300h")
ENVIRONMENTS = (1, 4, 16, 64)
#: Of a round.
MOVES, STEPS = 64, 64


def measure_growth(rounds: int = 7, **_: Any) -> list[Figure]:
    """CPU time of a move, a schedule and a step, each with the exponent by which it grows."""
    figures: list[Figure] = []
    moves: dict[int, list[float]] = {}
    places: dict[int, list[float]] = {}
    for slices in SLICES:
        moves[slices], places[slices] = _model("skylake-x-8n", slices, rounds)
    figures += _grown("one move by the model", "slices", moves)
    figures += _grown("a whole schedule by the model", "slices", places)
    by_cores = {load_machine(name).cores: _model(name, 256, rounds)[0] for name in MACHINES}
    figures += _grown("one move by the model", "cores", by_cores)
    steps = {environments: _steps(environments, rounds) for environments in ENVIRONMENTS}
    return figures + _grown("one step of an environment", "environments", steps)


def _grown(what: str, by: str, found: Mapping[int, list[float]]) -> list[Figure]:
    """A figure per size, and the slope of the costs in logarithms."""
    sizes = sorted(found)
    note = "CPU time of one thread"
    figures = [Figure.of(f"{what}, {n} {by}", "us", found[n], note=note) for n in sizes]
    x = [log(n) for n in sizes]
    slopes = [
        float(np.polyfit(x, [log(found[n][at]) for n in sizes], 1)[0])
        for at in range(len(found[sizes[0]]))
    ]
    words = f"{what}, growth with {by}"
    return [*figures, Figure.of(words, "exponent", slopes, note="0: not at all, 1: as fast")]


def _model(machine: str, slices: int, rounds: int) -> tuple[list[float], list[float]]:
    """Microseconds of a move and of a whole schedule."""
    backend = make_backend("analytic", machine=machine, workload="ycsb-a", slices=slices)
    assert isinstance(backend, AnalyticBackend)
    rng = np.random.default_rng(0)
    workers = backend.machine.workers
    schedules = [backend.machine.local_schedule(rng.choice(workers, slices)) for _ in range(2)]
    backend.place(schedules[0])
    some = rng.permutation(slices)[:MOVES].tolist()

    def move() -> None:
        # To the other schedule: a slice that is where it should go would cost nothing.
        schedules.reverse()
        cores = schedules[0].cores.tolist()
        for s in some:
            backend.move(s, cores[s])

    def place() -> None:
        for schedule in schedules * 4:
            backend.model.place(schedule.cores, schedule.nodes)

    move()
    moved = seconds_of(move, rounds)
    place()
    placed = seconds_of(place, rounds)
    return [1e6 * one / len(some) for one in moved], [1e6 * one / 8 for one in placed]


def _steps(environments: int, rounds: int) -> list[float]:
    """Microseconds of a step of one of the environments of a vector."""
    envs = gymnasium.make_vec(
        "pmoss/SpatialScheduling-v0",
        environments,
        vectorization_mode="vector_entry_point",
        reward="improvement",
    )
    _, infos = envs.reset(seed=0)
    workers = np.flatnonzero(infos["action_mask"][0])
    actions = np.random.default_rng(0).choice(workers, (STEPS, environments))
    values = []
    for _ in range(rounds):
        envs.reset(seed=0)

        def step() -> None:
            for row in actions:
                envs.step(row)

        values += [1e6 * seconds / actions.size for seconds in seconds_of(step, 1)]
    envs.close()
    return values
