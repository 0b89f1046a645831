"""How costs grow with slices, cores, environments and keys: a slope in logarithms."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from math import log
from typing import Any

import numpy as np

from pmoss_benchmarks.performance.environments import SLICES, SPATIAL, legal_tiles, model_works
from pmoss_benchmarks.performance.programs import Figure, figure, index_costs, timed
from pmoss_benchmarks.performance.runtime import simulated
from pmoss_env.machines import Machine
from pmoss_env.machines.catalog import PRESETS

#: slices; cores of machines that differ in nothing else; environments; keys
SIZES: Mapping[str, tuple[int, ...]] = {
    "slices": (64, 256, 1024, 4096),
    "cores": (8, 32, 128, 512),
    "environments": (1, 8, 64, 512, 4096),
    "keys": (1_000_000, 10_000_000, 30_000_000, 100_000_000),
}
#: The machine whose nodes are made wider, and the slices that it serves: one per core at least.
WIDENED, SLICES_OF_CORES = "skylake-x-8n", 512
#: Steps of all environments together, and simulated queries, in a round.
STEPS, QUERIES = 8192, 500_000
#: Memory of an index at its most, measured at 10 million keys.
BYTES_PER_KEY = 110


def growth(rounds: int, **_: Any) -> list[Figure]:
    """CPU time of a move, a schedule, a simulated query and a step, each with its exponent."""
    figures: list[Figure] = []
    for by, costs in (
        ("slices", {n: _model(WIDENED, n, rounds) for n in SIZES["slices"]}),
        ("cores", {n: _model(wide(n), SLICES_OF_CORES, rounds) for n in SIZES["cores"]}),
    ):
        for name in next(iter(costs.values())):
            of_size = {n: of[name] for n, of in costs.items()}
            figures += grown(f"{name} by the model", by, of_size)
    queries = {n: _queries(wide(n), rounds) for n in SIZES["cores"]}
    steps = {n: _steps(n, rounds) for n in SIZES["environments"]}
    return [
        *figures,
        *grown("one simulated query", "cores", queries),
        *grown("one step of an environment", "environments", steps),
    ]


def growth_index(rounds: int, **_: Any) -> list[Figure]:
    """CPU time of each mix on an index, at every size that half of the memory holds."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    sizes = [keys for keys in SIZES["keys"] if keys * BYTES_PER_KEY <= memory // 2]
    # One size says nothing about growth; the second one takes a gigabyte.
    costs = {
        keys: index_costs(keys, rounds) for keys in (sizes if sizes[1:] else SIZES["keys"][:2])
    }
    names = costs[min(costs)]
    return [
        one
        for name in names
        for one in grown(name, "keys", {keys: of[name] for keys, of in costs.items()})
    ]


def grown(what: str, by: str, costs: Mapping[int, list[float]]) -> list[Figure]:
    """A figure for each size, and the slope of the costs in logarithms.

    Args:
        what: costs this.
        by: what its size counts, such as "slices".
        costs: microseconds of each round, by size in rising order.
    """
    note = "CPU time of one thread"
    x = [log(size) for size in costs]
    slopes = [
        float(np.polyfit(x, np.log(of_round), 1)[0])
        for of_round in zip(*costs.values(), strict=True)
    ]
    words = f"{what}, growth with {by}"
    return [
        *(figure(f"{what}, {n} {by}", "us", values, note) for n, values in costs.items()),
        figure(words, "exponent", slopes, "0: not at all, 1: as fast"),
    ]


def wide(cores: int) -> Machine:
    """The widened machine with so many cores, all of which serve."""
    data = tomllib.loads((PRESETS / f"{WIDENED}.toml").read_text(encoding="utf-8"))
    nodes = data["topology"]["sockets"] * data["topology"]["nodes_per_socket"]
    of_node = cores // nodes
    data["name"] = f"{WIDENED}, {cores} cores"
    data["topology"] |= {"cores_per_node": of_node, "cores_per_llc": of_node}
    data["topology"]["grid"] = [nodes, of_node]
    data["roles"] = {"worker": list(range(of_node))}
    return Machine.from_dict(data)


def _model(machine: str | Machine, slices: int, rounds: int) -> dict[str, list[float]]:
    _, works = model_works(machine, slices)
    seconds = timed({name: work for name, (work, _) in works.items()}, rounds)
    return {name: [1e6 * s / calls for s in seconds[name]] for name, (_, calls) in works.items()}


def _queries(machine: Machine, rounds: int) -> list[float]:
    cores = machine.workers[np.arange(SLICES_OF_CORES) % machine.workers.size]
    run = simulated(machine, cores, 1_000_000, QUERIES, 64, "closed", "core")
    return [1e6 * s / QUERIES for s in timed({"": run}, rounds)[""]]


def _steps(environments: int, rounds: int) -> list[float]:
    """Microseconds of a step of one of the environments of a vector."""
    import gymnasium

    envs = gymnasium.make_vec(
        SPATIAL, environments, vectorization_mode="vector_entry_point", reward="improvement"
    )
    _, infos = envs.reset(seed=0)
    actions = legal_tiles(infos["action_mask"], min(32, max(4, STEPS // environments)))
    left = 0

    def reset() -> None:
        # Before an episode ends, so that no step pays for it.
        nonlocal left
        if left < len(actions):
            envs.reset(seed=0)
            left = SLICES
        left -= len(actions)

    def step() -> None:
        for row in actions:
            envs.step(row)

    seconds = timed({"reset": reset, "step": step}, rounds)["step"]
    envs.close()
    return [1e6 * s / actions.size for s in seconds]
