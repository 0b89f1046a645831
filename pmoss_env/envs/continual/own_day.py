"""What is asked of the index itself goes up and down over its day: how much, and what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pmoss_env.envs.continual.drift import (
    MOST_EPOCHS,
    Asked,
    Conditions,
    DriftFamily,
    check_share,
    check_whole,
    height_of_day,
)
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.workloads import Workload

#: Every mix has profiles of its own.
MOST_LEVELS = 16


class _Daily(DriftFamily):
    """Its state is the hour of the day."""

    day: int

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> int:
        """Some hour."""
        return int(rng.integers(self.day))

    def advance(self, state: int, rng: np.random.Generator) -> int:
        """An hour later."""
        return (state + 1) % self.day


@dataclass(frozen=True)
class DailyLoad(_Daily):
    """An open load that comes and goes over the day.

    Attributes:
        day: epochs of a day.
        least: of the offered load, what comes at the lowest hour; all of it comes at the height.
    """

    day: int = 24
    least: float = 0.3

    name: ClassVar[str] = "daily-load"
    meaning: ClassVar[str] = (
        "of an open load comes all at the height of a day of 24 epochs, less than a third at night"
    )
    only_co_tenants: ClassVar[bool] = False
    needs_open_load: ClassVar[bool] = True

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_whole("day", self.day, 2, MOST_EPOCHS)
        check_share("least", self.least, 1.0)
        if self.least == 0.0:
            raise DescriptionError("least = 0: some load must come at every hour: choose 0.01")

    def conditions(self, state: int) -> Conditions:
        """So much comes at this hour."""
        height = height_of_day(state, self.day)
        return Conditions(asked=Asked(load=self.least + (1.0 - self.least) * height))


@dataclass(frozen=True)
class DailyMix(_Daily):
    """Queries of other kinds take the place of the workload's own over the day.

    At the lowest hour the index gets its own mix, at the height of the day another one, and
    something between at other hours. Which keys are asked for stays as it is.

    Attributes:
        scan: share of scans in the other mix; what the three leave are lookups.
        insert: of inserts.
        update: of updates.
        day: epochs of a day.
        levels: how many mixes there are, both ends included.
    """

    scan: float = 0.5
    insert: float = 0.0
    update: float = 0.0
    day: int = 24
    levels: int = 5

    name: ClassVar[str] = "daily-mix"
    meaning: ClassVar[str] = "half of the queries turn into scans over a day of 24 epochs, and back"
    only_co_tenants: ClassVar[bool] = False

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        for name in ("scan", "insert", "update"):
            check_share(name, getattr(self, name), 1.0)
        # Shares in hundredths may add up to a little more than 1.
        check_share("scan + insert + update", round(self._others(), 9), 1.0)
        check_whole("day", self.day, 2, MOST_EPOCHS)
        check_whole("levels", self.levels, 2, MOST_LEVELS)

    def _others(self) -> float:
        """What the other mix leaves no lookups."""
        return self.scan + self.insert + self.update

    def workloads(self, workload: Workload) -> tuple[Workload, ...]:
        """From the workload's own mix to the other one."""
        other: dict[str, Any] = {
            "lookup": max(0.0, 1.0 - self._others()),
            "insert": self.insert,
            "scan": self.scan,
            "update": self.update,
        }
        try:
            replace(workload, **other)
        except DescriptionError as error:
            raise DescriptionError(f"drift_options of {self.name!r}: {error}") from error
        found = []
        for part in np.linspace(0.0, 1.0, self.levels).tolist():
            shares = {
                kind: (1.0 - part) * getattr(workload, kind) + part * share
                for kind, share in other.items()
            }
            found.append(replace(workload, **shares))
        return tuple(found)

    def conditions(self, state: int) -> Conditions:
        """The mix of this hour."""
        return Conditions(
            asked=Asked(mix=round(height_of_day(state, self.day) * (self.levels - 1)))
        )
