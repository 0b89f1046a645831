"""Local search on a budget of noisy measurements, without a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pmoss_env.baselines.context import Context
from pmoss_env.baselines.search import TRIALS, promising_changes
from pmoss_env.baselines.walk import random_change
from pmoss_env.errors import UnsupportedError
from pmoss_env.measurements import Measurements
from pmoss_env.types import HardwareSnapshot, Int32Array, Schedule

#: Number of promising changes among which to look for new ones.
_CONSIDERED = 400


@dataclass(frozen=True)
class Answer:
    """The answer of a search from some number of evaluations on.

    Attributes:
        used: number of evaluations after which it is the answer.
        schedule: the schedule with the best reading so far.
    """

    used: int
    schedule: Schedule


def measured_search(context: Context, start: Schedule) -> list[Answer]:
    """Local search in which every evaluation measures a schedule.

    The answers do not depend on the budget: a search that stops earlier gives the same ones so far.
    Without an evaluation the answer is ``start``. Afterwards it is the schedule with the best
    reading, the incumbent included. No schedule is measured twice.

    Args:
        context: needs ``measurements``, and the incumbent with its snapshot.

    Returns:
        The answers in the order of the evaluations; the first is that without an evaluation.

    Raises:
        UnsupportedError: the context lacks one of them.
    """
    if context.measurements is None or context.incumbent is None or context.snapshot is None:
        raise UnsupportedError(
            "a measured search needs measurements, an incumbent and its snapshot"
        )
    return _Search(context, context.measurements, start).run()


class _Search:
    """The current schedule, its reading and its counters."""

    def __init__(self, context: Context, measurements: Measurements, start: Schedule) -> None:
        self._context, self._measurements = context, measurements
        self._answers = [Answer(0, start)]
        self._measured: set[bytes] = set()
        self.cores: Int32Array = start.cores
        self._reading = -np.inf
        self._snapshot: HardwareSnapshot | None = None

    def run(self) -> list[Answer]:
        """Searches until the budget is used up."""
        context = self._context
        incumbent, snapshot = context.incumbent, context.snapshot
        assert incumbent is not None and snapshot is not None
        if self._measurements.left:
            self._tried(self._answers[0].schedule)
        legal = context.allows(incumbent)
        if self._answers[-1].used and legal and snapshot.throughput > self._reading:
            self._keep(incumbent, snapshot.throughput, snapshot)
        while self._measurements.left:
            improved = self._any(self._promising()) or self._any(self._random())
            if not improved and self._measurements.left and self._exhausted():
                break
        return self._answers

    def _exhausted(self) -> bool:
        """Whether random changes give no new schedule: all of a tiny instance was measured."""
        return not any(self._is_new(steps) for steps in islice(self._draws(), 1000))

    def _any(self, changes: Iterator[list[tuple[int, int]]]) -> bool:
        """Measures changes until one is kept; whether one was."""
        return any(
            self._tried(self._changed(steps)) for steps in changes if self._measurements.left
        )

    def _promising(self) -> Iterator[list[tuple[int, int]]]:
        assert self._snapshot is not None
        changes = promising_changes(self._context, self.cores, self._snapshot, _CONSIDERED)
        return islice((steps for steps in changes if self._is_new(steps)), TRIALS)

    def _random(self) -> Iterator[list[tuple[int, int]]]:
        return (steps for steps in islice(self._draws(), TRIALS) if self._is_new(steps))

    def _draws(self) -> Iterator[list[tuple[int, int]]]:
        while True:
            yield random_change(self.cores, self._context)

    def _is_new(self, steps: list[tuple[int, int]]) -> bool:
        return bool(steps) and self._changed(steps).cores.tobytes() not in self._measured

    def _changed(self, steps: list[tuple[int, int]]) -> Schedule:
        cores = self.cores.copy()
        for slice_, core in steps:
            cores[slice_] = core
        return self._context.local_schedule(cores)

    def _tried(self, schedule: Schedule) -> bool:
        """Measures a schedule, and keeps it if its reading is the best."""
        self._measured.add(schedule.cores.tobytes())
        reading = self._measurements.throughput(schedule)
        if reading <= self._reading:
            return False
        self._keep(schedule, reading, self._measurements.snapshot())
        return True

    def _keep(self, schedule: Schedule, reading: float, snapshot: HardwareSnapshot) -> None:
        self.cores, self._reading, self._snapshot = schedule.cores, reading, snapshot
        self._answers.append(Answer(self._measurements.used, schedule))


def answer_after(answers: list[Answer], used: int) -> Schedule:
    """The answer of a search after a number of evaluations."""
    return [answer for answer in answers if answer.used <= used][-1].schedule
