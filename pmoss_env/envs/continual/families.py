"""The families of drift, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_env.envs.continual.drift import (
    MOST,
    MOST_COUNT,
    MOST_EPOCHS,
    Asked,
    Conditions,
    DriftFamily,
    check_enough,
    check_number,
    check_range,
    check_share,
    check_whole,
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


#: (targets that can be disturbed, {target: strength}).
Visit = tuple[tuple[int, ...], dict[int, float]]


@dataclass(frozen=True)
class _Visitors(DriftFamily):
    """Co-tenants of one kind that come and go without memory."""

    count: float = 3.0
    lifetime: float = 20.0
    strength: tuple[float, float] = (0.6, 0.9)

    co_tenant: ClassVar[str] = "memory_stream"

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_range("strength", self.strength, MOST)
        check_range("lifetime", (1.0, self.lifetime))
        check_number("count", self.count, 0.0, MOST_COUNT)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Visit:
        """As many as there are in the mean, by chance."""
        targets = tuple(int(target) for target in possible_targets(self.co_tenant, machine))
        there = self._mean(targets) / len(targets)
        return targets, {t: self._strength(rng) for t in targets if rng.random() < there}

    def _mean(self, targets: tuple[int, ...]) -> float:
        return min(self.count, 0.5 * len(targets))

    def _strength(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(*self.strength))

    def advance(self, state: Visit, rng: np.random.Generator) -> Visit:
        """Each leaves with the same chance in every epoch; others come as often."""
        targets, there = state
        leaves = 1.0 / self.lifetime
        mean = self._mean(targets)
        comes = leaves * mean / (len(targets) - mean)
        after: dict[int, float] = {}
        for target in targets:
            if target in there:
                if rng.random() >= leaves:
                    after[target] = there[target]
            elif rng.random() < comes:
                after[target] = self._strength(rng)
        return targets, after

    def conditions(self, state: Visit) -> Conditions:
        """Those that are there."""
        there = sorted(state[1].items())
        return Conditions(tuple(CoTenant(self.co_tenant, t, strength) for t, strength in there))


@dataclass(frozen=True)
class MemoryContention(_Visitors):
    """Strong memory contention that comes and goes.

    Attributes:
        count: disturbed nodes in the mean; of few nodes at most half.
        lifetime: mean epochs of one.
        strength: range of the share of a node's memory bandwidth.
    """

    name: ClassVar[str] = "memory"
    meaning: ClassVar[str] = "streams take 60 to 90 % of a node's memory, and come and go"


@dataclass(frozen=True)
class BusyCores(_Visitors):
    """Busy cores that come and go without a pattern.

    Attributes:
        count: disturbed cores in the mean; of few cores at most half.
        lifetime: mean epochs of one.
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
    """Sets of busy cores that take turns.

    Attributes:
        count: busy cores of each set; no more than there are cores for all sets.
        period: epochs of a turn.
        sets: how many there are.
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
        check_whole("count", self.count, 1, MOST_COUNT)
        check_whole("period", self.period, 1, MOST_EPOCHS)
        check_whole("sets", self.sets, 1)
        check_range("strength", self.strength, MOST)
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
        count: nodes with such a stream; no more than there are.
        rise: epochs of growing, and of shrinking.
        stay: epochs at the peak.
        idle_epochs: mean time between two.
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
        check_whole("count", self.count, 1, MOST_COUNT)
        for name in ("rise", "stay"):
            check_whole(name, getattr(self, name), 1, MOST_EPOCHS)
        check_number("idle_epochs", self.idle_epochs, 1.0, MOST_EPOCHS)
        check_range("peak", self.peak, MOST)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Any:
        """(node, peak, age) of each; an age of 0 is idle."""
        there = worker_nodes(machine)
        nodes = rng.choice(there, min(self.count, there.size), replace=False)
        whole = 2 * self.rise + self.stay
        return tuple(
            (int(node), float(rng.uniform(*self.peak)), int(rng.integers(whole))) for node in nodes
        )

    def advance(self, state: Any, rng: np.random.Generator) -> Any:
        """A ramp goes on until its end; an idle one begins by chance."""
        whole = 2 * self.rise + self.stay
        after = []
        for node, peak, age in state:
            begins = rng.random() < 1.0 / self.idle_epochs
            after.append((node, peak, (age + 1) % whole if age else int(begins)))
        return tuple(after)

    def conditions(self, state: Any) -> Conditions:
        """What the streams take at their ages."""
        taken = []
        for node, peak, age in state:
            height = min(age, 2 * self.rise + self.stay - age, self.rise) / self.rise
            if age:
                taken.append(CoTenant("memory_stream", node, peak * height))
        return Conditions(tuple(taken))


@dataclass(frozen=True)
class SlowNode(DriftFamily):
    """One node after the other gets slow: its workers lose time.

    Attributes:
        share: of their time that the workers of the slow node lose.
        lifetime: mean epochs until another node is the slow one.
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
        """(which node, the co-tenants of each)."""
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
        """By chance another node, any of them."""
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
    """The load of the slices moves along the index: hot ranges wander or jump.

    Attributes:
        speed: slices per epoch, in one direction.
        jump_every: mean epochs between two jumps to anywhere; 0: never.
    """

    speed: float = 2.0
    jump_every: float = 0.0

    name: ClassVar[str] = "moving-load"
    meaning: ClassVar[str] = "what is hot moves along the index by two slices per epoch"
    only_co_tenants: ClassVar[bool] = False

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_range("speed", (0.0, self.speed), slices)
        if self.jump_every:
            check_range("jump_every", (1.0, self.jump_every))

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Any:
        """(slices, place): the instance says where it begins."""
        return slices, 0.0

    def advance(self, state: Any, rng: np.random.Generator) -> Any:
        """One step, or a jump."""
        slices, place = state
        if self.jump_every and rng.random() < 1.0 / self.jump_every:
            return slices, float(rng.integers(slices))
        return slices, (place + self.speed) % slices

    def conditions(self, state: Any) -> Conditions:
        """By how many whole slices the load has moved."""
        return Conditions(asked=Asked(shift=int(state[1])))


@dataclass(frozen=True)
class Popularity(DriftFamily):
    """What is popular changes over the day, and is popular again at the same hour of the next one.

    Attributes:
        places: where along the index the load is in turn, drawn for the episode.
        day: epochs of a day; the load is as long at each place.
    """

    places: int = 3
    day: int = 24

    name: ClassVar[str] = "popularity"
    meaning: ClassVar[str] = "what is hot is at one of three places of the index, by the hour"
    only_co_tenants: ClassVar[bool] = False

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_whole("places", self.places, 1, slices)
        check_whole("day", self.day, self.places, MOST_EPOCHS)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> Any:
        """(hour, places of the load)."""
        places = rng.choice(slices, self.places, replace=False)
        return int(rng.integers(self.day)), tuple(map(int, places))

    def advance(self, state: Any, rng: np.random.Generator) -> Any:
        """An hour later."""
        hour, places = state
        return (hour + 1) % self.day, places

    def conditions(self, state: Any) -> Conditions:
        """The load is where it is at this hour."""
        hour, places = state
        return Conditions(asked=Asked(shift=places[hour * self.places // self.day]))


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
