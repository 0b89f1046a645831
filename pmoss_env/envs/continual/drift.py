"""Drift: changes of the surroundings of a running index from epoch to epoch, as data.

A family of drift is a Markov process with parameters. Its state is hidden from policies. With the
transition law and the state of the last epoch one can sample later conditions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import pi, sin
from typing import Any, ClassVar

import numpy as np

from pmoss_env.checks import check_name, check_type, check_whole, is_whole
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant, Int32Array
from pmoss_env.workloads import Workload


@dataclass(frozen=True)
class Demand:
    """The queries of the index in one epoch.

    Attributes:
        shift: slice i has the load that slice i - shift has in the workload instance, cyclically.
        load: share of the queries that an open load offers; 1 under any other load.
        mix: number of the family's workload; see DriftFamily.workloads().
    """

    shift: int = 0
    load: float = 1.0
    mix: int = 0


#: The demand of the workload instance.
DEFAULT_DEMAND = Demand()


@dataclass(frozen=True)
class Conditions:
    """The conditions of one epoch, besides the schedule."""

    co_tenants: tuple[CoTenant, ...] = ()
    demand: Demand = DEFAULT_DEMAND


#: Largest share of a co-tenant.
MAX_SHARE = 0.95
#: Largest number of targets; on a smaller machine fewer are disturbed.
MAX_COUNT = 65_536
#: Largest number of epochs of a phase.
MAX_EPOCHS = 100_000
#: The state of a family in one epoch, known only to the family.
State = Any


class DriftFamily(ABC):
    """A family of drift; its attributes are the parameters, plain JSON.

    ``begin`` and ``advance`` only draw from the given generator and do not change a state in place.
    """

    name: ClassVar[str]
    #: One line of description.
    meaning: ClassVar[str]
    #: Whether only co-tenants change: then it can run on a real host.
    only_co_tenants: ClassVar[bool] = True
    #: Whether it changes an open load.
    needs_open_load: ClassVar[bool] = False

    def check(self, machine: Machine, slices: int) -> None:  # noqa: B027 - some have nothing to refuse
        """Checks the parameters.

        Raises:
            DescriptionError: an invalid value.
            UnsupportedError: the machine has too few targets.
        """

    def workloads(self, workload: Workload) -> tuple[Workload, ...]:
        """The mixes of queries; usually the first is the index's own.

        Raises:
            DescriptionError: a mix is invalid.
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
        """The conditions of a state."""


@dataclass(frozen=True)
class Drift:
    """The course of a family in an episode."""

    family: DriftFamily
    states: tuple[State, ...]

    def conditions(self, epoch: int) -> Conditions:
        """The conditions of an epoch, from 0."""
        return self.family.conditions(self.states[epoch])

    def sample_conditions(self, epoch: int, rng: np.random.Generator, ahead: int = 1) -> Conditions:
        """Samples the conditions of an epoch, given the state of an earlier one.

        Args:
            epoch: from ``ahead``; it may lie beyond the course.
            rng: another one than that of the drift.
            ahead: number of epochs between the known state and the epoch, from 1.
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
        epochs: number of epochs, from 1.
        seed: not negative.

    Raises:
        DescriptionError: no seed, no epochs, or invalid parameters.
        UnsupportedError: the machine has too few targets.
    """
    if not is_whole(seed):
        raise DescriptionError(
            f"seed = {seed!r} of the drift {family.name!r}: must be a whole number from 0, so that "
            "the drift can be repeated"
        )
    check_whole("epochs", epochs, 1)
    family.check(machine, slices)
    rng = np.random.default_rng((seed, 0x64726966))
    states = [family.begin(machine, slices, rng)]
    while len(states) < epochs:
        states.append(family.advance(states[-1], rng))
    return Drift(family, tuple(states))


def make_family(
    families: Mapping[str, type[DriftFamily]], name: str, options: Mapping[str, Any] | None
) -> DriftFamily:
    """A family by name, with parameters.

    Raises:
        UnknownNameError: no such family, or no such parameter.
        DescriptionError: a value of a wrong type.
    """
    check_name("drift", name, families)
    if not isinstance(options, Mapping | None):
        raise DescriptionError(
            f"drift_options = {options!r}: must hold parameters by name, or be left out"
        )
    family = families[name]
    defaults = {field.name: field.default for field in fields(family)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in (options or {}).items():
        check_name(f"parameter of the drift {name!r}:", key, defaults)
        values[key] = _like(defaults[key], key, value)
    return family(**values)


def _like(default: Any, key: str, value: Any) -> Any:
    """A value in the type of a parameter's default."""
    if isinstance(default, tuple):
        pair = isinstance(value, (list, tuple)) and len(value) == len(default)
        if not pair:
            raise DescriptionError(f"drift_options[{key!r}] = {value!r}: must be [least, most]")
        return tuple(_like(each, key, part) for each, part in zip(default, value, strict=True))
    check_type(f"drift_options[{key!r}]", type(default), value)
    return type(default)(value)


def height_of_day(hour: int, day: int) -> float:
    """0 at the lowest hour of a day, 1 at its peak."""
    return 0.5 * (1.0 + sin(2.0 * pi * hour / day))


def worker_nodes(machine: Machine) -> Int32Array:
    """(n,) int32, the nodes with worker cores."""
    return np.unique(machine.node_of_core[machine.workers])


def check_share(name: str, value: float, maximum: float = MAX_SHARE) -> None:
    """Raises DescriptionError unless a value lies in [0, maximum]."""
    if not 0 <= value <= maximum:
        raise DescriptionError(f"{name} = {value!r}: must lie in [0, {maximum:g}]")


def check_range(name: str, pair: tuple[float, float], maximum: float = float("inf")) -> None:
    """Raises DescriptionError unless a pair is [least, most] with 0 <= least <= most."""
    if not 0 <= pair[0] <= pair[1] <= maximum:
        raise DescriptionError(
            f"{name} = {list(pair)!r}: must be [least, most] from 0 to {maximum:g}, in this order"
        )


def check_enough(what: str, wanted: int, available: int, machine: Machine) -> None:
    """Raises UnsupportedError if a machine has too few targets."""
    if wanted > available:
        raise UnsupportedError(f"{wanted} {what}: {machine.name} has {available}; ask for fewer")


def check_cores_of_nodes(cores: int, machine: Machine) -> None:
    """Raises UnsupportedError if a node with workers has fewer of them."""
    per_node = np.bincount(machine.node_of_core[machine.workers])[worker_nodes(machine)]
    check_enough("worker cores on one node", cores, int(per_node.min()), machine)
