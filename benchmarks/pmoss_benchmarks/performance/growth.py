"""How the cost of an answer grows with slices, cores and environments."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache, partial
from math import log
from typing import Any

import gymnasium
import numpy as np

import pmoss_env  # noqa: F401  # registers the environments
from pmoss_benchmarks.report import Figure, seconds_of
from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.backends.analytic import AnalyticBackend
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.machines import Machine
from pmoss_env.machines.catalog import PRESETS

SLICES = (64, 256, 1024, 4096)
#: Of machines that differ in nothing else.
CORES = (8, 32, 128, 512)
ENVIRONMENTS = (1, 8, 64, 512, 4096)
#: The machine whose nodes are made wider, and the slices that it serves: one per core at least.
WIDENED, SLICES_OF_CORES = "skylake-x-8n", 512
#: Of a round. Steps are those of all environments together.
MOVES, STEPS, QUERIES = 64, 8192, 500_000
#: A step each.
SLICES_OF_EPISODE = 256


def measure_growth(rounds: int = 7, **_: Any) -> list[Figure]:
    """CPU time of a move, a schedule, a simulated query and a step, each with its exponent."""
    by_slices = {n: _model(WIDENED, n, rounds) for n in SLICES}
    by_cores = {n: _model(_wide(n), SLICES_OF_CORES, rounds) for n in CORES}
    figures: list[Figure] = []
    for by, found in (("slices", by_slices), ("cores", by_cores)):
        for at, what in enumerate(("one move by the model", "a whole schedule by the model")):
            figures += grown(what, by, {n: both[at] for n, both in found.items()})
    queries = {cores: _queries(_wide(cores), rounds) for cores in CORES}
    figures += grown("one simulated query", "cores", queries)
    steps = {environments: _steps(environments, rounds) for environments in ENVIRONMENTS}
    return figures + grown("one step of an environment", "environments", steps)


def grown(
    what: str, by: str, found: Mapping[int, list[float]], note: str = "CPU time of one thread"
) -> list[Figure]:
    """A figure per size, and the slope of the costs in logarithms.

    Args:
        what: costs this.
        by: what its size counts, such as "slices".
        found: microseconds of each round, by size; all of as many rounds.
        note: of every figure but the slope.
    """
    sizes = sorted(found)
    figures = [Figure.of(f"{what}, {n} {by}", "us", found[n], note=note) for n in sizes]
    x = [log(n) for n in sizes]
    slopes = [
        float(np.polyfit(x, [log(found[n][at]) for n in sizes], 1)[0])
        for at in range(len(found[sizes[0]]))
    ]
    words = f"{what}, growth with {by}"
    return [*figures, Figure.of(words, "exponent", slopes, note="0: not at all, 1: as fast")]


@cache
def _wide(cores: int) -> Machine:
    """The widened machine with so many cores, all of which serve."""
    data = tomllib.loads((PRESETS / f"{WIDENED}.toml").read_text(encoding="utf-8"))
    nodes = data["topology"]["sockets"] * data["topology"]["nodes_per_socket"]
    of_node = cores // nodes
    data["name"] = f"{WIDENED}, {cores} cores"
    data["topology"] |= {"cores_per_node": of_node, "cores_per_llc": of_node}
    data["topology"]["grid"] = [nodes, of_node]
    data["roles"] = {"worker": list(range(of_node))}
    return Machine.from_dict(data)


def _model(machine: str | Machine, slices: int, rounds: int) -> tuple[list[float], list[float]]:
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


@cache
def _trace() -> Any:
    """What half lookups, half inserts touch in a B+-tree of a million records."""
    workload = _native.WorkloadSpec(lookup=0.5, insert=0.5, distribution="zipf", records=1_000_000)
    return index_kind(DEFAULT).record(
        workload, SLICES_OF_CORES, queries=QUERIES, line_sampling=64, page_sampling=8
    )


def _queries(machine: Machine, rounds: int) -> list[float]:
    """Microseconds of a simulated query; slices go to the cores in turn."""
    cores = machine.workers[np.arange(SLICES_OF_CORES) % machine.workers.size]
    server = _native.SimulatedServer(native_machine(machine), load="closed")
    server.set_instance(_trace())
    run = partial(server.run, cores, machine.node_of_core[cores], "core")
    run()
    return [1e6 * seconds / QUERIES for seconds in seconds_of(run, rounds)]


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
    count = min(32, max(4, STEPS // environments))
    actions = np.random.default_rng(0).choice(workers, (count, environments))

    def step() -> None:
        for row in actions:
            envs.step(row)

    values = []
    for at in range(rounds):
        if at % (SLICES_OF_EPISODE // count) == 0:
            envs.reset(seed=0)  # here, so that no step pays for the episode's end
        values += [1e6 * seconds / actions.size for seconds in seconds_of(step, 1)]
    envs.close()
    return values
