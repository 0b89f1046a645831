"""Families of neighbours: the co-tenants that share a server with the index.

A neighbour is never shown to a policy except through what the counters then say (design.md
section 3): the reason to read a performance monitoring unit at all.

The analytic model takes a neighbour's turns as short: a shared core is a slower core. Where turns
last longer than bounded queues take to fill (milliseconds against a closed load of few queries), a
shared core stops the others too, and real losses are greater than modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pmoss_env.errors import UnknownNameError
from pmoss_env.machines import Machine
from pmoss_env.types import Neighbour

#: A busy neighbour's share of its core's time, drawn uniformly.
BUSY_SHARE = (0.3, 0.7)
#: At most one worker core in this many has a busy neighbour.
WORKERS_PER_BUSY_CORE = 8


@dataclass(frozen=True)
class Interference:
    """One family of neighbours.

    Attributes:
        name: as in the environment's ``interference`` argument.
        description: one line for people.
        draw: gives an episode's neighbours, from nothing but the machine and the generator.
    """

    name: str
    description: str
    draw: Callable[[Machine, np.random.Generator], tuple[Neighbour, ...]]


def _none(machine: Machine, rng: np.random.Generator) -> tuple[Neighbour, ...]:
    return ()


def _busy_core(machine: Machine, rng: np.random.Generator) -> tuple[Neighbour, ...]:
    most = max(1, machine.workers.size // WORKERS_PER_BUSY_CORE)
    count = int(rng.integers(1, most, endpoint=True))
    cores = rng.choice(machine.workers, size=count, replace=False)
    shares = rng.uniform(*BUSY_SHARE, size=count)
    return tuple(
        Neighbour("busy_core", int(core), float(share))
        for core, share in zip(cores, shares, strict=True)
    )


INTERFERENCE: Mapping[str, Interference] = {
    family.name: family
    for family in (
        Interference("none", "the index has the machine to itself", _none),
        Interference(
            "busy_core",
            "1 to workers/8 worker cores lose 30 to 70 % of their time to another thread",
            _busy_core,
        ),
    )
}


def draw_neighbours(
    family: str, machine: Machine, rng: np.random.Generator
) -> tuple[Neighbour, ...]:
    """Draws one episode's neighbours.

    Args:
        family: a key of INTERFERENCE.
        machine: whose worker cores they sit on.
        rng: the only source of chance.

    Raises:
        UnknownNameError: no such family.
    """
    if family not in INTERFERENCE:
        raise UnknownNameError("interference", family, INTERFERENCE)
    return INTERFERENCE[family].draw(machine, rng)
