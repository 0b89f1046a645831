"""A budget of measurements: what a planner may ask of an episode's backend before it decides."""

from __future__ import annotations

import time

import numpy as np

from pmoss_env.backends.base import Backend, incremental
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.noise import Noise
from pmoss_env.types import HardwareSnapshot, Schedule

#: Schedules that differ in at most so many slices are reached move by move: that is faster.
_MOVES = 16


class Measurements:
    """Runs schedules on a backend, as often as a budget allows, and reads what they measure.

    One evaluation is one schedule that ran. It gives the throughput, and the counters at no
    further cost. Every reading has noise of its own where the environment has noise.

    Attributes:
        budget: evaluations in all.
        used: evaluations so far.
        seconds: that the backend took for them.
    """

    def __init__(
        self,
        backend: Backend,
        budget: int,
        *,
        noise: float = 0.0,
        seed: tuple[int, ...] = (0,),
        software: bool = False,
    ) -> None:
        """Takes a backend that is set to an episode's instance; see Session.measurements().

        Args:
            backend: of the kind that measures the episode; its current schedule is changed.
            budget: evaluations, 0 or more.
            noise: strength, as in the environment's argument.
            seed: of the stream of noise.
            software: whether only software counters can be read.

        Raises:
            DescriptionError: a negative budget, or an impossible noise.
        """
        if budget < 0:
            raise DescriptionError(f"measurements = {budget}: must be 0 or more")
        self.budget, self.used, self.seconds = budget, 0, 0.0
        self._backend, self._software = backend, software
        self._incremental = incremental(backend)
        self._seed = seed
        self._noise = Noise(noise, seed)
        self._at: Schedule | None = None
        self._latest: tuple[Schedule, float] | None = None
        self._raw: HardwareSnapshot | None = None
        self._seen: HardwareSnapshot | None = None

    @property
    def left(self) -> int:
        """Evaluations that are left."""
        return self.budget - self.used

    def throughput(self, schedule: Schedule) -> float:
        """Runs a schedule: one evaluation; returns the reading of its throughput, Mq/s.

        Raises:
            UnsupportedError: the budget is used up.
            ScheduleError: the machine cannot run the schedule.
            BackendError: the measurement failed.
        """
        if self.used >= self.budget:
            raise UnsupportedError(
                f"all {self.budget} measurements are used up: look at `left` before asking"
            )
        self._latest = self._raw = self._seen = None
        began = time.perf_counter()
        true = self._asked(schedule)
        self.seconds += time.perf_counter() - began
        self.used += 1
        reading = true * float(self._noise.throughput_factors(1)[0])
        self._latest = schedule, reading
        return reading

    def snapshot(self) -> HardwareSnapshot:
        """The counters of the latest evaluation, as they may be read; costs nothing.

        Raises:
            UnsupportedError: nothing was measured yet.
        """
        if self._latest is None:
            raise UnsupportedError("no schedule was measured yet: call throughput() or measure()")
        if self._seen is None:
            schedule, reading = self._latest
            if self._raw is None:
                began = time.perf_counter()
                self._raw = self._backend.measure(schedule, seed=self._seed[0])
                self._at = schedule
                self.seconds += time.perf_counter() - began
            seen = self._noise.snapshot(self._raw, reading)
            self._seen = seen.without_pmu() if self._software else seen
        return self._seen

    def measure(self, schedule: Schedule) -> HardwareSnapshot:
        """Runs a schedule and returns its snapshot: one evaluation; raises as throughput()."""
        self.throughput(schedule)
        return self.snapshot()

    def _asked(self, schedule: Schedule) -> float:
        """The true throughput, by whatever costs the backend least."""
        backend = self._incremental
        if backend is None:
            self._raw = self._backend.measure(schedule, seed=self._seed[0] + self.used)
            return self._raw.throughput
        self._backend.machine.check_schedule(schedule, self._backend.slices)
        moved = self._moved(schedule)
        self._at = None
        if not moved or len(moved) > _MOVES:
            found = backend.place(schedule)
        else:
            for slice_ in moved:
                found = backend.move(slice_, int(schedule.cores[slice_]))
        self._at = schedule
        return found

    def _moved(self, schedule: Schedule) -> list[int] | None:
        """The slices that differ from the backend's schedule; None: moves do not lead there."""
        at = self._at
        if at is None or (at.routing, at.data) != (schedule.routing, schedule.data):
            return None
        moved = np.flatnonzero((at.cores != schedule.cores) | (at.nodes != schedule.nodes))
        home = self._backend.machine.node_of_core[schedule.cores[moved]]
        return moved.tolist() if (schedule.nodes[moved] == home).all() else None
