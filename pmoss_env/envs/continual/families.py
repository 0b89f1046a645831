"""The families of drift, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_env.checks import check_number, check_whole
from pmoss_env.envs.continual.drift import (
    MAX_COUNT,
    MAX_EPOCHS,
    MAX_SHARE,
    Conditions,
    Demand,
    DriftFamily,
    check_enough,
    check_range,
    check_share,
    worker_nodes,
)
from pmoss_env.envs.continual.jobs import Jobs
from pmoss_env.envs.continual.other_indexes import OtherIndexes
from pmoss_env.envs.continual.own_day import DailyLoad, DailyMix
from pmoss_env.interference import possible_targets
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant


@dataclass(frozen=True)
class NoDrift(DriftFamily):
    """Nothing changes, and there are no co-tenants."""

    name: ClassVar[str] = "none"
    meaning: ClassVar[str] = "nothing changes"

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> None:
        """There is no state."""

    def advance(self, state: None, rng: np.random.Generator) -> None:
        """There is no state."""

    def conditions(self, state: None) -> Conditions:
        """The index has the machine to itself."""
        return Conditions()


#: (possible targets, {target: strength}).
ActiveCoTenants = tuple[tuple[int, ...], dict[int, float]]


@dataclass(frozen=True)
class _Visitors(DriftFamily):
    """Co-tenants of one kind that come and go independently."""

    count: float = 3.0
    lifetime: float = 20.0
    strength: tuple[float, float] = (0.6, 0.9)

    co_tenant: ClassVar[str] = "memory_stream"

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_range("strength", self.strength, MAX_SHARE)
        check_range("lifetime", (1.0, self.lifetime))
        check_number("count", self.count, 0.0, MAX_COUNT)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> ActiveCoTenants:
        """The mean number of co-tenants, at random."""
        targets = tuple(int(target) for target in possible_targets(self.co_tenant, machine))
        probability = self._mean(targets) / len(targets)
        return targets, {t: self._strength(rng) for t in targets if rng.random() < probability}

    def _mean(self, targets: tuple[int, ...]) -> float:
        return min(self.count, 0.5 * len(targets))

    def _strength(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(*self.strength))

    def advance(self, state: ActiveCoTenants, rng: np.random.Generator) -> ActiveCoTenants:
        """Each leaves with the same probability in every epoch; others arrive at the same rate."""
        targets, active = state
        leaves = 1.0 / self.lifetime
        mean = self._mean(targets)
        arrives = leaves * mean / (len(targets) - mean)
        after: dict[int, float] = {}
        for target in targets:
            if target in active:
                if rng.random() >= leaves:
                    after[target] = active[target]
            elif rng.random() < arrives:
                after[target] = self._strength(rng)
        return targets, after

    def conditions(self, state: ActiveCoTenants) -> Conditions:
        """The active co-tenants."""
        active = sorted(state[1].items())
        return Conditions(tuple(CoTenant(self.co_tenant, t, strength) for t, strength in active))


@dataclass(frozen=True)
class MemoryContention(_Visitors):
    """Strong memory contention that comes and goes.

    Attributes:
        count: mean number of disturbed nodes; at most half of the nodes.
        lifetime: mean number of epochs.
        strength: range of the share of a node's memory bandwidth.
    """

    name: ClassVar[str] = "memory"
    meaning: ClassVar[str] = "streams take 60 to 90 % of a node's memory, and come and go"


@dataclass(frozen=True)
class BusyCores(_Visitors):
    """Busy cores that come and go without a pattern.

    Attributes:
        count: mean number of disturbed cores; at most half of the cores.
        lifetime: mean number of epochs.
        strength: range of the share of a core's time.
    """

    count: float = 5.0
    lifetime: float = 15.0
    strength: tuple[float, float] = (0.3, 0.7)

    co_tenant: ClassVar[str] = "busy_core"
    name: ClassVar[str] = "busy-cores"
    meaning: ClassVar[str] = "threads take 30 to 70 % of a core, and come and go"


@dataclass(frozen=True)
class PeriodicCores(DriftFamily):
    """Sets of busy cores that alternate.

    Attributes:
        count: busy cores of each set; at most as many as there are cores for all sets.
        period: epochs of a set's turn.
        sets: number of sets.
        strength: range of the share of a core's time.
    """

    count: int = 5
    period: int = 8
    sets: int = 2
    strength: tuple[float, float] = (0.3, 0.7)

    name: ClassVar[str] = "periodic-cores"
    meaning: ClassVar[str] = "two sets of busy cores that take turns"

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_whole("count", self.count, 1, MAX_COUNT)
        check_whole("period", self.period, 1, MAX_EPOCHS)
        check_whole("sets", self.sets, 1)
        check_range("strength", self.strength, MAX_SHARE)
        check_enough("sets of busy cores", self.sets, machine.workers.size, machine)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Any:
        """(time, the co-tenants of each set)."""
        shape = (self.sets, min(self.count, machine.workers.size // self.sets))
        cores = rng.choice(machine.workers, shape, replace=False)
        shares = rng.uniform(*self.strength, shape)
        sets = tuple(
            tuple(
                CoTenant("busy_core", int(core), float(share))
                for core, share in zip(*each, strict=True)
            )
            for each in zip(cores, shares, strict=True)
        )
        return int(rng.integers(self.sets * self.period)), sets

    def advance(self, state: Any, rng: np.random.Generator) -> Any:
        """One epoch later."""
        return state[0] + 1, state[1]

    def conditions(self, state: Any) -> Conditions:
        """The set whose turn it is."""
        time, sets = state
        return Conditions(sets[time // self.period % self.sets])


@dataclass(frozen=True)
class Ramps(DriftFamily):
    """Memory streams that grow, stay and shrink.

    Attributes:
        count: nodes with such a stream; at most all nodes.
        rise: epochs of growth, and of shrinking.
        stay: epochs at the peak after the one that reaches it.
        idle_epochs: mean time between two streams.
        peak: range of the share of a node's memory bandwidth.
    """

    count: int = 4
    rise: int = 5
    stay: int = 5
    idle_epochs: float = 8.0
    peak: tuple[float, float] = (0.6, 0.9)

    name: ClassVar[str] = "ramps"
    meaning: ClassVar[str] = "memory streams that grow for five epochs, stay and shrink"

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_whole("count", self.count, 1, MAX_COUNT)
        for name in ("rise", "stay"):
            check_whole(name, getattr(self, name), 1, MAX_EPOCHS)
        check_number("idle_epochs", self.idle_epochs, 1.0, MAX_EPOCHS)
        check_range("peak", self.peak, MAX_SHARE)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Any:
        """(node, peak, age) of each stream; an age of 0 is idle."""
        nodes = worker_nodes(machine)
        nodes = rng.choice(nodes, min(self.count, nodes.size), replace=False)
        whole = 2 * self.rise + self.stay
        return tuple(
            (int(node), float(rng.uniform(*self.peak)), int(rng.integers(whole))) for node in nodes
        )

    def advance(self, state: Any, rng: np.random.Generator) -> Any:
        """Each stream continues until its end; an idle one begins at random."""
        whole = 2 * self.rise + self.stay
        after = []
        for node, peak, age in state:
            begins = rng.random() < 1.0 / self.idle_epochs
            after.append((node, peak, (age + 1) % whole if age else int(begins)))
        return tuple(after)

    def conditions(self, state: Any) -> Conditions:
        """The co-tenants at their ages."""
        taken = []
        for node, peak, age in state:
            height = min(age, 2 * self.rise + self.stay - age, self.rise) / self.rise
            if age:
                taken.append(CoTenant("memory_stream", node, peak * height))
        return Conditions(tuple(taken))


@dataclass(frozen=True)
class SlowNode(DriftFamily):
    """A slow node, whose workers lose time; later another one.

    Attributes:
        share: of the time of the slow node's workers.
        lifetime: mean number of epochs until a node is drawn again, which may be the same one.
    """

    share: float = 0.5
    lifetime: float = 25.0

    name: ClassVar[str] = "slow-node"
    meaning: ClassVar[str] = "the workers of one node lose half of their time; then another's"

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_share("share", self.share)
        check_range("lifetime", (1.0, self.lifetime))

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Any:
        """(slow node, the co-tenants of each node)."""
        workers = machine.workers
        sets = tuple(
            tuple(
                CoTenant("busy_core", int(core), self.share)
                for core in workers[machine.node_of_core[workers] == node]
            )
            for node in worker_nodes(machine)
        )
        return int(rng.integers(len(sets))), sets

    def advance(self, state: Any, rng: np.random.Generator) -> Any:
        """At random the slow node is drawn again."""
        which, sets = state
        if rng.random() < 1.0 / self.lifetime:
            which = int(rng.integers(len(sets)))
        return which, sets

    def conditions(self, state: Any) -> Conditions:
        """The workers of the slow node."""
        which, sets = state
        return Conditions(sets[which])


@dataclass(frozen=True)
class MovingLoad(DriftFamily):
    """The load of the slices moves along the index: hot ranges shift or jump.

    Attributes:
        speed: slices per epoch, in one direction.
        jump_every: mean epochs between two jumps to a random place; 0: never.
    """

    speed: float = 2.0
    jump_every: float = 0.0

    name: ClassVar[str] = "moving-load"
    meaning: ClassVar[str] = "hot ranges move along the index by two slices per epoch"
    only_co_tenants: ClassVar[bool] = False

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_range("speed", (0.0, self.speed), slices)
        if self.jump_every:
            check_range("jump_every", (1.0, self.jump_every))

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Any:
        """(slices, place): the workload instance determines the begin."""
        return slices, 0.0

    def advance(self, state: Any, rng: np.random.Generator) -> Any:
        """One step, or a jump."""
        slices, place = state
        if self.jump_every and rng.random() < 1.0 / self.jump_every:
            return slices, float(rng.integers(slices))
        return slices, (place + self.speed) % slices

    def conditions(self, state: Any) -> Conditions:
        """The shift of the load in whole slices."""
        return Conditions(demand=Demand(shift=int(state[1])))


@dataclass(frozen=True)
class Popularity(DriftFamily):
    """The hot range changes over the day, with the same course every day.

    Attributes:
        places: number of random places of the hot range, visited in turn.
        day: epochs of a day, divided equally over the places.
    """

    places: int = 3
    day: int = 24

    name: ClassVar[str] = "popularity"
    meaning: ClassVar[str] = "the hot range moves between three places of the index over the day"
    only_co_tenants: ClassVar[bool] = False

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_whole("places", self.places, 1, slices)
        check_whole("day", self.day, self.places, MAX_EPOCHS)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Any:
        """(hour, places of the hot range)."""
        places = rng.choice(slices, self.places, replace=False)
        return int(rng.integers(self.day)), tuple(map(int, places))

    def advance(self, state: Any, rng: np.random.Generator) -> Any:
        """The next hour."""
        hour, places = state
        return (hour + 1) % self.day, places

    def conditions(self, state: Any) -> Conditions:
        """The hot range at the place of this hour."""
        hour, places = state
        return Conditions(demand=Demand(shift=places[hour * self.places // self.day]))


FAMILIES: Mapping[str, type[DriftFamily]] = {
    family.name: family
    for family in (
        NoDrift,
        Jobs,
        MemoryContention,
        BusyCores,
        PeriodicCores,
        Ramps,
        SlowNode,
        MovingLoad,
        Popularity,
        DailyLoad,
        DailyMix,
        OtherIndexes,
    )
}
