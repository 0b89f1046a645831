"""An index on this host that tries every change, and keeps it only where it serves more."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pmoss_benchmarks.autopilot.decision import (
    LEAST_PAIRS,
    LOOKS,
    Verdict,
    gain,
    judge,
    signed_rank,
)
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.live import LiveRound
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.types import Int32Array, Schedule

#: A round should last so long (seconds): in less, the kernel's turns decide who serves.
_ROUND_SECONDS = 0.016
#: Rounds of an epoch that show what a trial has come to: at least so many.
_REST = 4
#: Queries that wait for less than this share of a round do not spoil the next one.
_SOON = 0.1
#: A trial of no change looks so much better with about this chance.
_HINT = 0.1


def pairs_within(seconds: float) -> int:
    """The most pairs of a trial for which an epoch has time.

    Args:
        seconds: length of the epoch.
    """
    # Before a round that counts there may have to be one that does not.
    room = (seconds / _ROUND_SECONDS - _REST) / 4
    return max((pairs for pairs in LOOKS if pairs <= room), default=LEAST_PAIRS)


@dataclass(frozen=True)
class Trial:
    """What came of one change.

    Attributes:
        slices: how many it would move.
        before: Mq/s of the rounds under the old schedule.
        after: under the new one.
        gains: of the pairs; see decision.gain().
        kept: whether the new one stays.
    """

    slices: int
    before: tuple[float, ...]
    after: tuple[float, ...]
    gains: tuple[float, ...]
    kept: bool

    @property
    def better(self) -> bool:
        """Whether the new one looked better, kept or not; see _HINT."""
        return signed_rank(self.gains)[1] < _HINT


class TriedIndex(LiveIndex):
    """Runs each change and the schedule before it in turn, round by round, at an epoch's begin.

    Data stay where they are in a trial, and follow a change that is kept. So on several nodes a
    trial shows the least of what a change brings.

    Queries that wait when a schedule changes are still served by the one before. With deep queues
    that takes whole rounds. So a side's round counts only once the most of them are answered, as
    far as the epoch has time for that.

    Attributes:
        last: the trial of the last epoch; None where nothing was to change.

    Args:
        backend: as of LiveIndex.
        seconds: length of an epoch.
        seed: of the order within the pairs.
    """

    def __init__(self, backend: HardwareBackend, seconds: float, *, seed: int = 0) -> None:
        self._most = pairs_within(seconds)
        asked = int(seconds / _ROUND_SECONDS)
        rounds = max(2 * self._most + _REST, min(asked, 4 * self._most + 2 * _REST))
        super().__init__(backend, seconds, rounds=rounds)
        self._seconds = seconds / rounds
        self._most_late = (rounds - _REST) // (2 * self._most) - 1
        self._late = 0
        self._rng = np.random.default_rng(seed)
        self.last: Trial | None = None

    def change(self) -> tuple[list[LiveRound], list[LiveRound]]:
        """Tries it; ``cores`` are the old ones again where it is not kept."""
        self.last, sides, passed = self.tried(self.served, self.cores)
        if self.last.kept:
            self.served = self.cores.copy()
        else:
            self.cores = self.served.copy()
        self.serve(self.machine.local_schedule(self.cores))
        return passed, sides[self.last.kept]

    def next_round(self) -> LiveRound:
        """See LiveIndex; takes note of how long queries wait."""
        found = super().next_round()
        # Where no query was completed nobody knows.
        if not math.isnan(waited := found.snapshot.latency_p99_us * 1e-6 / self._seconds):
            self._late = 0 if waited < _SOON else min(math.ceil(waited), self._most_late)
        return found

    def rounds_under(self, schedule: Schedule) -> list[LiveRound]:
        """Changes the schedule; the last round is the first that counts."""
        self.serve(schedule)
        found = [self.next_round()]
        # What waited may be told only now.
        late = self._late
        while len(found) <= late:
            found.append(self.next_round())
            late = max(late, self._late)
        return found

    def tried(
        self, before: Int32Array, after: Int32Array
    ) -> tuple[Trial, tuple[list[LiveRound], list[LiveRound]], list[LiveRound]]:
        """Runs two schedules in turn until the test has decided.

        Every round begins with a change of the schedule, also to the same one: so both pay for it.

        Args:
            before: (slices,) cores, whose nodes hold the data.
            after: (slices,) cores.

        Returns:
            What came of it, the rounds under either schedule, and all rounds that have passed.
        """
        nodes = self.nodes.copy()
        rounds: tuple[list[LiveRound], list[LiveRound]] = ([], [])
        passed: list[LiveRound] = []
        gains: list[float] = []
        verdict = Verdict.OPEN
        while verdict is Verdict.OPEN:
            first = int(self._rng.integers(2))
            for side in (first, 1 - first):
                passed += self.rounds_under(Schedule((before, after)[side], nodes))
                rounds[side].append(passed[-1])
            gains.append(gain(*(ran[-1].snapshot.throughput for ran in rounds)))
            verdict = judge(gains, self._most)
        moved = int(np.count_nonzero(before != after))
        told = [tuple(one.snapshot.throughput for one in ran) for ran in rounds]
        trial = Trial(moved, told[0], told[1], tuple(gains), verdict is Verdict.KEEP)
        return trial, rounds, passed
