"""Other indexes on the machine: their load has a daily cycle, and they are moved at times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmoss_env.checks import check_whole
from pmoss_env.envs.continual.drift import (
    MAX_COUNT,
    MAX_EPOCHS,
    MAX_SHARE,
    Conditions,
    DriftFamily,
    check_cores_of_nodes,
    check_range,
    check_share,
    height_of_day,
    worker_nodes,
)
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant


@dataclass(frozen=True)
class OtherIndex:
    """Another index in one epoch.

    Attributes:
        place: position of its node among the nodes with workers.
        time: share of its cores at the peak of its day.
        memory: share of the node's memory bandwidth at the peak.
        hour: epochs since the begin of its day.
    """

    place: int
    time: float
    memory: float
    hour: int


#: (each node with the worker cores for another index, the other indexes).
State = tuple[tuple[tuple[int, ...], ...], tuple[OtherIndex, ...]]


@dataclass(frozen=True)
class OtherIndexes(DriftFamily):
    """Other indexes on the same machine, whose load has a daily cycle.

    Each is served by some worker cores of one node, which holds its data. At random it moves to a
    node without another index.

    Attributes:
        count: number of other indexes, each on a node of its own; at most all nodes.
        cores: worker cores of each: the first ones of its node.
        time: range of the share of these cores at the peak of its day.
        memory: range of the share of the node's memory bandwidth at the peak.
        day: epochs of a day.
        least: load at the lowest hour, as a share of the peak.
        lifetime: mean number of epochs until it moves.
    """

    count: int = 4
    cores: int = 3
    time: tuple[float, float] = (0.5, 0.8)
    memory: tuple[float, float] = (0.4, 0.7)
    day: int = 24
    least: float = 0.1
    lifetime: float = 40.0

    name: ClassVar[str] = "other-indexes"
    meaning: ClassVar[str] = "other indexes with a day of 24 epochs, re-scheduled now and then"

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_whole("count", self.count, 1, MAX_COUNT)
        check_whole("cores", self.cores, 1)
        check_whole("day", self.day, 2, MAX_EPOCHS)
        check_share("least", self.least, 1.0)
        for name in ("time", "memory"):
            check_range(name, getattr(self, name), MAX_SHARE)
        check_range("lifetime", (1.0, self.lifetime))
        check_cores_of_nodes(self.cores, machine)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> State:
        """Every other index is on a random node, at a random hour of its day."""
        workers, nodes = machine.workers, worker_nodes(machine)
        cores = [workers[machine.node_of_core[workers] == node][: self.cores] for node in nodes]
        places = tuple(
            tuple(map(int, (node, *node_cores)))
            for node, node_cores in zip(nodes, cores, strict=True)
        )
        chosen = rng.choice(nodes.size, min(self.count, nodes.size), replace=False)
        return places, tuple(
            OtherIndex(
                int(place),
                float(rng.uniform(*self.time)),
                float(rng.uniform(*self.memory)),
                int(rng.integers(self.day)),
            )
            for place in chosen
        )

    def advance(self, state: State, rng: np.random.Generator) -> State:
        """The next hour; some indexes move."""
        places, indexes = state
        taken = {index.place for index in indexes}
        after = []
        for index in indexes:
            place = index.place
            free = [candidate for candidate in range(len(places)) if candidate not in taken]
            if rng.random() < 1.0 / self.lifetime and free:
                place = free[int(rng.integers(len(free)))]
                taken = taken - {index.place} | {place}
            hour = (index.hour + 1) % self.day
            after.append(OtherIndex(place, index.time, index.memory, hour))
        return places, tuple(after)

    def conditions(self, state: State) -> Conditions:
        """The co-tenants of the other indexes at their hours."""
        places, indexes = state
        co_tenants: list[CoTenant] = []
        for index in indexes:
            node, *cores = places[index.place]
            level = self.level(index.hour)
            co_tenants += [CoTenant("busy_core", core, index.time * level) for core in cores]
            co_tenants.append(CoTenant("memory_stream", node, index.memory * level))
        return Conditions(tuple(co_tenants))

    def level(self, hour: int) -> float:
        """Load at an hour, as a share of the peak."""
        return self.least + (1.0 - self.least) * height_of_day(hour, self.day)
