"""Daily cycles of the index's own queries: their number and their mix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pmoss_env.checks import check_whole
from pmoss_env.envs.continual.drift import (
    MAX_EPOCHS,
    Conditions,
    Demand,
    DriftFamily,
    check_share,
    height_of_day,
)
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.workloads import Workload

#: Most mixes; each has profiles of its own.
MAX_LEVELS = 16


class _Daily(DriftFamily):
    """Its state is the hour of the day."""

    day: int

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> int:
        """A random hour."""
        return int(rng.integers(self.day))

    def advance(self, state: int, rng: np.random.Generator) -> int:
        """The next hour."""
        return (state + 1) % self.day


@dataclass(frozen=True)
class DailyLoad(_Daily):
    """An open load with a daily cycle.

    Attributes:
        day: epochs of a day.
        least: load at the lowest hour, as a share of the peak.
    """

    day: int = 24
    least: float = 0.3

    name: ClassVar[str] = "daily-load"
    meaning: ClassVar[str] = "the open load varies between 30 and 100 % over a day of 24 epochs"
    only_co_tenants: ClassVar[bool] = False
    needs_open_load: ClassVar[bool] = True

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_whole("day", self.day, 2, MAX_EPOCHS)
        check_share("least", self.least, 1.0)
        if self.least == 0.0:
            raise DescriptionError("least = 0: some load must come at every hour: choose 0.01")

    def conditions(self, state: int) -> Conditions:
        """The load of this hour."""
        height = height_of_day(state, self.day)
        return Conditions(demand=Demand(load=self.least + (1.0 - self.least) * height))


@dataclass(frozen=True)
class DailyMix(_Daily):
    """Queries of other kinds replace the workload's own over the day.

    The index gets its own mix at the lowest hour, another mix at the peak of the day, and mixtures
    at other hours. The distribution of the keys does not change.

    Attributes:
        scan: share of scans in the other mix; the rest of the four are lookups.
        insert: share of inserts.
        update: share of updates.
        day: epochs of a day.
        levels: number of mixes, both ends included.
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
        # Rounded, because the sum of shares may exceed 1 by a rounding error.
        check_share("scan + insert + update", round(self._others(), 9), 1.0)
        check_whole("day", self.day, 2, MAX_EPOCHS)
        check_whole("levels", self.levels, 2, MAX_LEVELS)

    def _others(self) -> float:
        """The share of the other mix that is no lookups."""
        return self.scan + self.insert + self.update

    def workloads(self, workload: Workload) -> tuple[Workload, ...]:
        """The mixes from the workload's own to the other one."""
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
        workloads = []
        for part in np.linspace(0.0, 1.0, self.levels).tolist():
            shares = {
                kind: (1.0 - part) * getattr(workload, kind) + part * share
                for kind, share in other.items()
            }
            workloads.append(replace(workload, **shares))
        return tuple(workloads)

    def conditions(self, state: int) -> Conditions:
        """The mix of this hour."""
        return Conditions(
            demand=Demand(mix=round(height_of_day(state, self.day) * (self.levels - 1)))
        )
