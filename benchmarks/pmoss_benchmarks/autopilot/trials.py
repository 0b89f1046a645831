"""An index on this host that tries every change, and keeps it only where it serves more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmoss_benchmarks.autopilot.decision import MOST_PAIRS, Verdict, gain, judge
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.live import LiveRound
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.types import Int32Array, Schedule

#: Rounds of an epoch: a whole trial, and some for what it has come to.
ROUNDS = 2 * MOST_PAIRS + 8


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


class TriedIndex(LiveIndex):
    """Runs each change and the schedule before it in turn, round by round, at an epoch's begin.

    Data stay where they are in a trial, and follow a change that is kept. So on several nodes a
    trial shows the least of what a change brings.

    Attributes:
        last: the trial of the last epoch; None where nothing was to change.

    Args:
        backend: as of LiveIndex.
        seconds: length of an epoch.
        seed: of the order within the pairs.
    """

    def __init__(self, backend: HardwareBackend, seconds: float, *, seed: int = 0) -> None:
        super().__init__(backend, seconds, rounds=ROUNDS)
        self._rng = np.random.default_rng(seed)
        self.last: Trial | None = None

    def change(self) -> list[LiveRound]:
        """Tries it; ``cores`` are the old ones again where it is not kept."""
        self.last, rounds = self.tried(self.served, self.cores)
        if self.last.kept:
            self.served = self.cores.copy()
        else:
            self.cores = self.served.copy()
        self.serve(self.machine.local_schedule(self.cores))
        return rounds

    def tried(self, before: Int32Array, after: Int32Array) -> tuple[Trial, list[LiveRound]]:
        """Runs two schedules in turn until the test has decided.

        Every round begins with a change of the schedule, also to the same one: so both pay for it.

        Args:
            before: (slices,) cores, whose nodes hold the data.
            after: (slices,) cores.
        """
        nodes = self.nodes.copy()
        told: tuple[list[float], list[float]] = ([], [])
        gains: list[float] = []
        rounds: list[LiveRound] = []
        verdict = Verdict.OPEN
        while verdict is Verdict.OPEN:
            first = int(self._rng.integers(2))
            for side in (first, 1 - first):
                self.serve(Schedule((before, after)[side], nodes))
                rounds.append(self.next_round())
                told[side].append(rounds[-1].snapshot.throughput)
            gains.append(gain(told[0][-1], told[1][-1]))
            verdict = judge(gains)
        moved = int(np.count_nonzero(before != after))
        trial = Trial(moved, tuple(told[0]), tuple(told[1]), tuple(gains), verdict is Verdict.KEEP)
        return trial, rounds
