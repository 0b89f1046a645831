"""Drift: what changes around a running index from epoch to epoch, as data.

A family of drift is a Markov process with parameters. Its state is never shown to a policy. Who
knows the law of a drift, and its state in the last epoch, can draw what may come next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import pi, sin
from typing import Any, ClassVar

import numpy as np

from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant, Int32Array
from pmoss_env.workloads import Workload


@dataclass(frozen=True)
class Asked:
    """What is asked of the index in one epoch.

    Attributes:
        shift: slice i has the load that slice i - shift has in the workload instance, in a circle.
        load: of the queries that an open load offers, so many come; 1 under any other load.
        mix: which of the family's workloads; see DriftFamily.workloads().
    """

    shift: int = 0
    load: float = 1.0
    mix: int = 0


#: As the workload instance says, and all of it.
AS_DRAWN = Asked()


@dataclass(frozen=True)
class Conditions:
    """What one epoch is like, beside the schedule.

    Attributes:
        co_tenants: programs of others.
        asked: of the index.
    """

    co_tenants: tuple[CoTenant, ...] = ()
    asked: Asked = AS_DRAWN


#: No co-tenant takes more than this share.
MOST = 0.95
#: No machine has more cores or nodes to disturb; where it has fewer, fewer are disturbed.
MOST_COUNT = 65_536
#: No phase of a drift lasts longer.
MOST_EPOCHS = 100_000
#: The state of a family in one epoch; only the family looks into it.
State = Any


class DriftFamily(ABC):
    """A family of drift; its attributes are the parameters, plain JSON.

    ``begin`` and ``advance`` draw from the given generator alone, and change no state in place.
    """

    name: ClassVar[str]
    #: One line for people.
    meaning: ClassVar[str]
    #: Whether co-tenants are all that drifts: a real host can be given those.
    only_co_tenants: ClassVar[bool] = True
    #: Whether an open load is what drifts.
    needs_open_load: ClassVar[bool] = False

    def check(self, machine: Machine, slices: int) -> None:  # noqa: B027 - some have nothing to refuse
        """Refuses parameters that are impossible by themselves or on a machine.

        Raises:
            DescriptionError: a value, with what would be right.
            UnsupportedError: the machine lacks what would be disturbed.
        """

    def workloads(self, workload: Workload) -> tuple[Workload, ...]:
        """The mixes of queries that the index may get; the first is usually its own.

        Args:
            workload: of the environment.

        Raises:
            DescriptionError: such a mix is impossible.
        """
        return (workload,)

    @abstractmethod
    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> State:
        """Draws the state of epoch 0."""

    @abstractmethod
    def advance(self, state: State, rng: np.random.Generator) -> State:
        """Draws the state of the next epoch."""

    @abstractmethod
    def conditions(self, state: State) -> Conditions:
        """What a state does to the machine and to the load."""


@dataclass(frozen=True)
class Drift:
    """A family's course in one episode.

    Attributes:
        family: with its parameters.
        states: of each epoch.
    """

    family: DriftFamily
    states: tuple[State, ...]

    def conditions(self, epoch: int) -> Conditions:
        """Of one epoch, from 0."""
        return self.family.conditions(self.states[epoch])

    def foretold(self, epoch: int, rng: np.random.Generator, ahead: int = 1) -> Conditions:
        """What the law lets expect of an epoch from the state of an earlier one: one draw.

        Args:
            epoch: from ``ahead``; it may lie beyond the course.
            rng: another one than that of the drift.
            ahead: how many epochs before it that state is known, from 1.
        """
        state = self.states[epoch - ahead]
        for _ in range(ahead):
            state = self.family.advance(state, rng)
        return self.family.conditions(state)


def draw_drift(
    family: DriftFamily, machine: Machine, slices: int, epochs: int, seed: int | None
) -> Drift:
    """Draws the course of a drift; the same seed gives the same course.

    Args:
        family: with its parameters.
        machine: what it happens on.
        slices: of the index.
        epochs: how many, from 1.
        seed: not negative.

    Raises:
        DescriptionError: no seed, no epochs, or impossible parameters.
        UnsupportedError: the machine lacks what would be disturbed.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise DescriptionError(
            f"seed = {seed!r} of the drift {family.name!r}: must be a whole number from 0, so that "
            "the same drift can be met again"
        )
    check_whole("epochs", epochs, 1)
    family.check(machine, slices)
    rng = np.random.default_rng((seed, 0x64726966))
    states = [family.begin(machine, slices, rng)]
    while len(states) < epochs:
        states.append(family.advance(states[-1], rng))
    return Drift(family, tuple(states))


def make_family(
    families: Mapping[str, type[DriftFamily]], name: object, options: Mapping[str, Any] | None
) -> DriftFamily:
    """A family by name, with other parameters than its own.

    Args:
        families: by name.
        name: of one of them.
        options: parameters by name; lists stand for pairs.

    Raises:
        UnknownNameError: no such family, or no such parameter.
        DescriptionError: a value of a wrong type.
    """
    if not isinstance(name, str) or name not in families:
        raise UnknownNameError("drift", name, families)
    if not isinstance(options, Mapping | None):
        raise DescriptionError(
            f"drift_options = {options!r}: must hold parameters by name, or be left out"
        )
    family = families[name]
    known = {field.name: field.default for field in fields(family)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in (options or {}).items():
        if key not in known:
            raise UnknownNameError(f"parameter of the drift {name!r}:", key, known)
        given[key] = _like(known[key], key, value)
    return family(**given)


def _like(usual: Any, key: str, value: Any) -> Any:
    """A value in the form of a parameter's usual one."""
    if isinstance(usual, tuple):
        pair = isinstance(value, (list, tuple)) and len(value) == len(usual)
        if not pair:
            raise DescriptionError(f"drift_options[{key!r}] = {value!r}: must be [least, most]")
        return tuple(_like(one, key, each) for one, each in zip(usual, value, strict=True))
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or (isinstance(usual, int) and not isinstance(value, int)):
        kind = "whole number" if isinstance(usual, int) else "number"
        raise DescriptionError(f"drift_options[{key!r}] = {value!r}: must be a {kind}")
    try:
        return value if isinstance(usual, int) else float(value)
    except OverflowError as error:
        raise DescriptionError(f"drift_options[{key!r}]: is beyond all numbers") from error


def height_of_day(hour: int, day: int) -> float:
    """0 at the lowest hour of a day, 1 at its height.

    Args:
        hour: epochs since some day began.
        day: epochs of a day.
    """
    return 0.5 * (1.0 + sin(2.0 * pi * hour / day))


def worker_nodes(machine: Machine) -> Int32Array:
    """(n,) int32, the nodes with worker cores."""
    return np.unique(machine.node_of_core[machine.workers])


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raises DescriptionError unless a value is a whole number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DescriptionError(f"{name} = {value!r}: must be a whole number from {least}")
    if most is not None and value > most:
        raise DescriptionError(f"{name} = {value!r}: must be at most {most:,}")


def check_number(name: str, value: float, least: float, most: float) -> None:
    """Raises DescriptionError unless a value lies in [least, most]."""
    if not least <= value <= most:
        raise DescriptionError(f"{name} = {value!r}: must be a number from {least:g} to {most:,g}")


def check_share(name: str, value: float, below: float = MOST) -> None:
    """Raises DescriptionError unless a value lies in [0, below]."""
    if not 0 <= value <= below:
        raise DescriptionError(f"{name} = {value!r}: must lie in [0, {below:g}]")


def check_range(name: str, pair: tuple[float, float], most: float = float("inf")) -> None:
    """Raises DescriptionError unless a pair is [least, most] with 0 <= least <= most."""
    if not 0 <= pair[0] <= pair[1] <= most:
        raise DescriptionError(
            f"{name} = {list(pair)!r}: must be [least, most] from 0 to {most:g}, in this order"
        )


def check_enough(what: str, wanted: int, there: int, machine: Machine) -> None:
    """Raises UnsupportedError where a machine has too few of what a drift disturbs."""
    if wanted > there:
        raise UnsupportedError(f"{wanted} {what}: {machine.name} has {there}; ask for fewer")


def check_cores_of_nodes(cores: int, machine: Machine) -> None:
    """Raises UnsupportedError where a node with workers has fewer of them."""
    per_node = np.bincount(machine.node_of_core[machine.workers])[worker_nodes(machine)]
    check_enough("worker cores on one node", cores, int(per_node.min()), machine)
