"""A budget of measurements on an episode's backend, for planners."""

from __future__ import annotations

import time

import numpy as np

from pmoss_env.backends.base import Backend, incremental
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.noise import Noise
from pmoss_env.types import HardwareSnapshot, Schedule

#: Most slices in which two schedules differ for single moves to be faster than a new placement.
_MAX_MOVES = 16


class Measurements:
    """Measures schedules on a backend, as often as a budget allows.

    One evaluation measures one schedule. It gives the throughput, and the counters at no further
    cost. Where the environment has noise, every reading has noise of its own. After close() nothing
    is measured: the backend goes on to other episodes.
    """

    def __init__(
        self,
        backend: Backend,
        budget: int,
        *,
        noise: float = 0.0,
        seed: tuple[int, ...] = (0,),
        counters: str = "all",
    ) -> None:
        """Takes a backend that is set to an episode's instance.

        Args:
            backend: of the same kind as the episode's; its current schedule changes.
            budget: evaluations, 0 or more.
            noise: strength, as in the environment's argument.
            counters: those that are available, one of types.READABLE.

        Raises:
            DescriptionError: a negative budget, or an impossible noise.
        """
        if budget < 0:
            raise DescriptionError(f"measurements = {budget}: must be 0 or more")
        self._budget, self._used, self._seconds, self._closed = budget, 0, 0.0, False
        self._backend, self._counters = backend, counters
        self._incremental = incremental(backend)
        self._seed = seed
        self._noise = Noise(noise, seed)
        self._placed: Schedule | None = None
        self._latest: tuple[Schedule, float] | None = None
        self._raw: HardwareSnapshot | None = None
        self._observed: HardwareSnapshot | None = None

    @property
    def budget(self) -> int:
        """Total number of evaluations."""
        return self._budget

    @property
    def used(self) -> int:
        """Number of evaluations so far."""
        return self._used

    @property
    def seconds(self) -> float:
        """Time that the backend took for them."""
        return self._seconds

    @property
    def left(self) -> int:
        """Number of evaluations left."""
        return self._budget - self._used

    def throughput(self, schedule: Schedule) -> float:
        """Measures a schedule (one evaluation) and returns the reading of its throughput in Mq/s.

        Raises:
            UnsupportedError: no evaluations are left, or it is closed.
            ScheduleError: the machine cannot run the schedule.
            BackendError: the measurement failed.
        """
        self._check_open()
        if self._used >= self._budget:
            raise UnsupportedError(
                f"all {self._budget} measurements are used up: look at `left` before asking"
            )
        self._latest = self._raw = self._observed = None
        # What the caller writes to its own later is not measured.
        schedule = Schedule(schedule.cores, schedule.nodes, schedule.routing, schedule.data)
        began = time.perf_counter()
        true = self._true_throughput(schedule)
        self._seconds += time.perf_counter() - began
        self._used += 1
        reading = true * float(self._noise.throughput_factors(1)[0])
        self._latest = schedule, reading
        return reading

    def snapshot(self) -> HardwareSnapshot:
        """The snapshot of the latest evaluation, with noise; no further evaluation.

        Raises:
            UnsupportedError: there was no evaluation yet, or it is closed.
        """
        self._check_open()
        if self._latest is None:
            raise UnsupportedError("no schedule was measured yet: call throughput() or measure()")
        if self._observed is None:
            schedule, reading = self._latest
            if self._raw is None:
                began = time.perf_counter()
                self._raw = self._backend.measure(schedule, seed=self._seed[0])
                self._placed = schedule
                self._seconds += time.perf_counter() - began
            noisy = self._noise.snapshot(self._raw, reading)
            noisy = self._noise.response_times(noisy).for_policies()
            self._observed = noisy.limited_to(self._counters)
        return self._observed

    def measure(self, schedule: Schedule) -> HardwareSnapshot:
        """Measures a schedule (one evaluation) and returns its snapshot; raises as throughput()."""
        self.throughput(schedule)
        return self.snapshot()

    def close(self) -> None:
        """Ends the measurements of the episode. The backend is its owner's and stays open."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise UnsupportedError("the plan of this episode is made: it has no more measurements")

    def _true_throughput(self, schedule: Schedule) -> float:
        """The throughput without noise in Mq/s, by the cheapest call of the backend."""
        backend = self._incremental
        if backend is None:
            self._raw = self._backend.measure(schedule, seed=self._seed[0] + self._used)
            return self._raw.throughput
        self._backend.machine.check_schedule(schedule, self._backend.slices)
        moved = self._moved(schedule)
        self._placed = None
        if not moved or len(moved) > _MAX_MOVES:
            throughput = backend.place(schedule)
        else:
            for slice_ in moved:
                throughput = backend.move(slice_, int(schedule.cores[slice_]))
        self._placed = schedule
        return throughput

    def _moved(self, schedule: Schedule) -> list[int] | None:
        """The slices that differ from the placed schedule; None if single moves cannot reach it."""
        placed = self._placed
        if placed is None or (placed.routing, placed.data) != (schedule.routing, schedule.data):
            return None
        moved = np.flatnonzero((placed.cores != schedule.cores) | (placed.nodes != schedule.nodes))
        home = self._backend.machine.node_of_core[schedule.cores[moved]]
        return moved.tolist() if (schedule.nodes[moved] == home).all() else None
