"""Several indexes on one machine: the others have a day, and are re-scheduled now and then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmoss_env.envs.continual.drift import (
    MOST,
    MOST_COUNT,
    MOST_EPOCHS,
    Conditions,
    DriftFamily,
    check_cores_of_nodes,
    check_range,
    check_share,
    check_whole,
    height_of_day,
    worker_nodes,
)
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant


@dataclass(frozen=True)
class OtherIndex:
    """Another index in one epoch.

    Attributes:
        place: position among the nodes with workers of the one that serves it and holds its data.
        time: share of its cores that it takes at the height of its day.
        memory: share of the node's memory bandwidth that it takes then.
        hour: epochs since its day began.
    """

    place: int
    time: float
    memory: float
    hour: int


#: (each node with the worker cores that may serve another index, the other indexes).
Present = tuple[tuple[tuple[int, ...], ...], tuple[OtherIndex, ...]]


@dataclass(frozen=True)
class OtherIndexes(DriftFamily):
    """Other indexes on the same machine, whose load goes up and down over their day.

    Each is served by some worker cores of one node, where its data are. By chance it is
    re-scheduled to another node that serves no other one.

    Attributes:
        count: other indexes, each on a node of its own: no more than there are nodes.
        cores: worker cores that serve each: the first ones of its node.
        time: range of the share of these cores that it takes at the height of its day.
        memory: range of the share of the node's memory bandwidth that it takes then.
        day: epochs of a day.
        least: load at the lowest hour, as a share of that at the height.
        lifetime: mean epochs until it is re-scheduled.
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
        check_whole("count", self.count, 1, MOST_COUNT)
        check_whole("cores", self.cores, 1)
        check_whole("day", self.day, 2, MOST_EPOCHS)
        check_share("least", self.least, 1.0)
        for name in ("time", "memory"):
            check_range(name, getattr(self, name), MOST)
        check_range("lifetime", (1.0, self.lifetime))
        check_cores_of_nodes(self.cores, machine)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Present:
        """Every other index is somewhere, at some hour of its day."""
        workers, nodes = machine.workers, worker_nodes(machine)
        cores = [workers[machine.node_of_core[workers] == node][: self.cores] for node in nodes]
        places = tuple(
            tuple(map(int, (node, *of_node))) for node, of_node in zip(nodes, cores, strict=True)
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

    def advance(self, state: Present, rng: np.random.Generator) -> Present:
        """An hour later; some are served elsewhere by now."""
        places, there = state
        taken = {one.place for one in there}
        after = []
        for one in there:
            place = one.place
            free = [at for at in range(len(places)) if at not in taken]
            if rng.random() < 1.0 / self.lifetime and free:
                place = free[int(rng.integers(len(free)))]
                taken = taken - {one.place} | {place}
            hour = (one.hour + 1) % self.day
            after.append(OtherIndex(place, one.time, one.memory, hour))
        return places, tuple(after)

    def conditions(self, state: Present) -> Conditions:
        """What the others take at their hours."""
        places, there = state
        taken: list[CoTenant] = []
        for one in there:
            node, *cores = places[one.place]
            level = self.level(one.hour)
            taken += [CoTenant("busy_core", core, one.time * level) for core in cores]
            taken.append(CoTenant("memory_stream", node, one.memory * level))
        return Conditions(tuple(taken))

    def level(self, hour: int) -> float:
        """Load at an hour, as a share of that at the height of the day."""
        return self.least + (1.0 - self.least) * height_of_day(hour, self.day)
