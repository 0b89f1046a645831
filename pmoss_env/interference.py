"""Families of co-tenants, which share a server with the index.

A policy sees a co-tenant only through the counters.

The models assume that a co-tenant's time slices are short: a shared core is a slower core. Under a
closed load of few queries, real time slices can be longer than the bounded queues take to fill.
Then a shared core stops the other cores too, and real losses are greater than modelled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pmoss_env.checks import check_name
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import CO_TENANT_FAMILIES, BoolArray, CoTenant, Int32Array


@dataclass(frozen=True)
class Draw:
    """The distribution of an episode's co-tenants of one family.

    Attributes:
        strength: range of the strengths, drawn uniformly.
        one_in: at most one in this many possible targets has a co-tenant; at least one target has.
    """

    family: str
    strength: tuple[float, float]
    one_in: int


@dataclass(frozen=True)
class Interference:
    """An entry of the catalogue: the co-tenants of episodes.

    Attributes:
        name: value of the environment's ``interference`` argument.
        one_of: whether an episode uses only one of the draws, chosen at random.
    """

    name: str
    description: str
    draws: tuple[Draw, ...]
    one_of: bool = False


_SINGLE = (
    (Draw("busy_core", (0.3, 0.7), 8), "worker cores lose 30 to 70 % of their time to a thread"),
    (Draw("busy_sibling", (0.5, 0.9), 8), "worker cores share their units with a busy SMT sibling"),
    (
        Draw("cache_thrash", (0.1, 0.4), 4),
        "last-level caches are swept by a stream of 10 to 40 % of their memory's bandwidth",
    ),
    (Draw("memory_stream", (0.3, 0.7), 4), "nodes lose 30 to 70 % of their read bandwidth"),
    (Draw("link_stream", (0.3, 0.7), 4), "links between sockets lose 30 to 70 % of theirs"),
)
_DRAWS = tuple(draw for draw, _ in _SINGLE)

INTERFERENCE: Mapping[str, Interference] = {
    entry.name: entry
    for entry in (
        Interference("none", "the index has the machine to itself", ()),
        *(
            Interference(draw.family, f"up to 1 in {draw.one_in} {what}", (draw,))
            for draw, what in _SINGLE
        ),
        Interference(
            "mixed", "one of the families above that the machine allows, drawn", _DRAWS, one_of=True
        ),
        Interference(
            "starved_nodes",
            "up to 1 in 2 nodes lose 90 to 97 % of their read bandwidth: their cores stay free",
            (Draw("memory_stream", (0.9, 0.97), 2),),
        ),
        Interference("all", "all of the families above that the machine allows, at once", _DRAWS),
    )
}


def possible_targets(family: str, machine: Machine) -> Int32Array:
    """(n,) int32: the targets on ``machine`` where co-tenants of ``family`` disturb the index."""
    if family == "busy_core":
        return machine.workers
    if family == "busy_sibling":
        return _with_free_sibling(machine)
    if family == "cache_thrash":
        return np.unique(machine.llc_of_core[machine.workers])
    if family == "memory_stream":
        return np.unique(machine.node_of_core[machine.workers])
    links = ~np.eye(machine.sockets, dtype=np.bool_)
    if machine.parameters:
        links &= machine.distances.link_gb_per_s > 0
    return np.flatnonzero(links).astype(np.int32)


def _with_free_sibling(machine: Machine) -> Int32Array:
    """The workers of a machine with SMT whose sibling serves no queries."""
    if "smt_share" not in machine.parameters:
        return np.zeros(0, dtype=np.int32)
    physical = machine.physical_of_core[machine.workers]
    alone: BoolArray = np.bincount(physical)[physical] == 1
    return machine.workers[alone]


def target_count(family: str, machine: Machine) -> int:
    """Number of cores, caches, nodes or links of ``machine``, whichever the family targets."""
    return {
        "core": machine.cores,
        "last-level domain": int(machine.llc_of_core.max()) + 1,
        "node": machine.nodes,
        "link": machine.sockets**2,
    }[CO_TENANT_FAMILIES[family]]


def possible_draws(interference: str, machine: Machine) -> tuple[Draw, ...]:
    """The distributions of an episode's co-tenants on ``machine``.

    Raises:
        UnsupportedError: the machine has no target for such a co-tenant.
    """
    check_name("interference", interference, INTERFERENCE)
    draws = INTERFERENCE[interference].draws
    possible = tuple(draw for draw in draws if possible_targets(draw.family, machine).size)
    if draws and not possible:
        raise UnsupportedError(
            f"interference {interference!r}: {machine.name} has no "
            f"{CO_TENANT_FAMILIES[draws[0].family]} that it could disturb"
        )
    return possible


def draw_co_tenants(
    interference: str, machine: Machine, rng: np.random.Generator
) -> tuple[CoTenant, ...]:
    """Draws one episode's co-tenants.

    Raises:
        UnsupportedError: the machine has no target for such a co-tenant.
    """
    draws = possible_draws(interference, machine)
    if draws and INTERFERENCE[interference].one_of:
        draws = (draws[int(rng.integers(len(draws)))],)
    return tuple(co_tenant for draw in draws for co_tenant in _drawn(draw, machine, rng))


def _drawn(draw: Draw, machine: Machine, rng: np.random.Generator) -> list[CoTenant]:
    targets = possible_targets(draw.family, machine)
    count = int(rng.integers(1, max(1, targets.size // draw.one_in), endpoint=True))
    chosen = rng.choice(targets, size=count, replace=False)
    strengths = rng.uniform(*draw.strength, size=count)
    return [
        CoTenant(draw.family, int(target), float(strength))
        for target, strength in zip(chosen, strengths, strict=True)
    ]


def check_co_tenants(
    co_tenants: Iterable[CoTenant], machine: Machine, runs: Collection[str], backend: str
) -> None:
    """Raises an error for co-tenants that the backend or the machine does not support.

    Raises:
        UnsupportedError: a family that the backend does not support.
        DescriptionError: a target that the machine does not have.
    """
    for co_tenant in co_tenants:
        if co_tenant.family not in runs:
            raise UnsupportedError(
                f"co-tenant {co_tenant.family!r}: the backend {backend!r} runs only "
                f"{', '.join(sorted(runs))}"
            )
        kind = CO_TENANT_FAMILIES[co_tenant.family]
        count = target_count(co_tenant.family, machine)
        if not 0 <= co_tenant.target < count:
            raise DescriptionError(
                f"co-tenant {co_tenant.family!r} on {kind} {co_tenant.target}: must lie between 0 "
                f"and {count - 1} on {machine.name}"
            )
