"""An index on this host that tries every change, and keeps it only where it serves more."""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pmoss_agents.autopilot.decision import gain, judge
from pmoss_env import _native
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.live import LiveRound
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.envs.continual.running import Epoch
from pmoss_env.errors import BackendError
from pmoss_env.measuring import mean_ratio
from pmoss_env.memory import record_bytes
from pmoss_env.types import Int32Array, Schedule

#: A round should last so long (seconds): in less, the kernel's turns and the queries that waited at
#: its begin decide the result.
_ROUND_SECONDS = 0.024
#: An epoch has room for a pair of rounds and one more, but not for very many.
_LEAST_ROUNDS, _MOST_ROUNDS = 5, 72
#: Queries that wait for less than this share of a round do not spoil the next one.
_SOON = 0.1
#: No side waits for more rounds than these.
_MOST_LATE = 1
#: Memory that is left for everything else, bytes.
_RESERVE = 128 << 20
#: A trial is given up once the old schedule serves another rate by this share than in the epoch
#: before the trial: the load has changed. Fewer rounds show only noise.
_OTHER_RATE, _FEW = 0.2, 3


class OutOfMemory(BackendError):
    """The index cannot grow for another epoch."""


@dataclass(frozen=True)
class Trial:
    """The result of one change.

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
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the new schedule's rate over the old one's, by its pairs.

        None without two pairs in which both served.
        """
        pairs = zip(self.before, self.after, strict=True)
        ratios = [(after / before, 0.0) for before, after in pairs if before > 0 and after > 0]
        return mean_ratio(ratios)[1:] if len(ratios) > 1 else None


@dataclass
class _Open:
    """A trial that may go on in the next epoch.

    Attributes:
        before: (slices,) cores.
        after: (slices,) cores.
        rate: Mq/s of the epoch before it; 0 if there was none.
        rates: Mq/s of the rounds that count, under either schedule.
        gains: of the pairs.
        rounds: of the epoch, under either schedule.
        passed: of the epoch, in their order.
    """

    before: Int32Array
    after: Int32Array
    rate: float = 0.0
    rates: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    gains: list[float] = field(default_factory=list)
    rounds: tuple[list[LiveRound], list[LiveRound]] = field(default_factory=lambda: ([], []))
    passed: list[LiveRound] = field(default_factory=list)

    def is_over(self, pairs: int) -> bool:
        """Whether the old schedule serves another rate since so many pairs."""
        rates = self.rates[0][pairs:]
        if not self.rate or len(rates) < _FEW:
            return False
        return abs(float(np.mean(rates)) - self.rate) > _OTHER_RATE * self.rate

    def ended(self, kept: bool) -> Trial:
        """What came of it."""
        moved = int(np.count_nonzero(self.before != self.after))
        before, after = map(tuple, self.rates)
        return Trial(moved, before, after, tuple(self.gains), kept)


class TriedIndex(LiveIndex):
    """Runs each change and the schedule before it in turn, round by round, from an epoch's begin.

    A trial that has not decided when its epoch ends goes on in the next one. Data stay where they
    are in a trial, and follow a change that is kept. So on several nodes a trial underestimates
    the gain of a change.

    Queries that wait when a schedule changes are still served by the one before. With deep queues
    that takes whole rounds. So a side's round counts only once the most of them are answered, as
    far as the epoch has time for that.

    Attributes:
        last: the trial that ended in the last epoch; None where none did.
        data: where the data were at the end, as the provenance of a snapshot has it; {} before.
        records: in the index at the end of the last epoch.
        ended: why the loop ended before its time; empty otherwise.

    Args:
        seconds: length of an epoch.
        seed: of the order within the pairs.
    """

    def __init__(self, backend: HardwareBackend, seconds: float, *, seed: int = 0) -> None:
        rounds = min(max(_LEAST_ROUNDS, int(seconds / _ROUND_SECONDS)), _MOST_ROUNDS)
        super().__init__(backend, seconds, rounds=rounds)
        self._seconds = seconds / rounds
        self._most_late = min(_MOST_LATE, (rounds - 1) // 2 - 1)
        self._late = 0
        self._rng = np.random.default_rng(seed)
        self._open: _Open | None = None
        self._rate, self._records, self.records = 0.0, 0, 0
        self.last: Trial | None = None
        self.data: dict[str, Any] = {}
        self.ended = ""

    def stop(self) -> None:
        """See LiveIndex; asks where the data lie, once what waits is answered."""
        # An interrupted loop ends as such, whatever comes then.
        interrupted = isinstance(sys.exception(), KeyboardInterrupt)
        try:
            with suppress(BackendError) if interrupted else nullcontext():
                if self._live.running:
                    self.data = self._live.data_facts(self._live.stop())
        finally:
            super().stop()

    def keep_within(self) -> str:
        """Loads an index that has grown too large again; called between two epochs.

        Every epoch adds what its inserts make. An index with more than ``max_growth`` of the
        backend is loaded again, once no trial is open: both schedules of a trial serve the same
        index. Where memory may not last for another epoch, it is loaded again at once.

        Returns:
            What was done, in words; empty if nothing.

        Raises:
            OutOfMemory: even a new index has no room to grow for an epoch.
        """
        loaded, records = self.backend.workload.records, self.records
        added = max(records - self._records, 0)
        # An epoch may serve more than the last one.
        need = int(2 * added * record_bytes(self.backend.workload)) + (_RESERVE if added else 0)
        grown = records > loaded * (1 + self.backend.max_growth)
        short = added > 0 and _native.available_memory() < need
        if records > loaded and (short or (grown and not self.trying)):
            self.reload()
            if not short or _native.available_memory() >= need:
                return f"loaded anew: {records:,} records were {loaded:,} at first"
        if short:
            raise OutOfMemory(
                f"this process may take only {_native.available_memory() / 2**20:.0f} MiB more, "
                f"and an epoch takes up to {need / 2**20:.0f} MiB: choose a workload that inserts "
                "less, shorter epochs, or fewer records"
            )
        return ""

    @property
    def trying(self) -> bool:
        """Whether a trial goes on in the next epoch: then no other change is taken."""
        return self._open is not None

    def begin(self, workload_seed: int, conditions: Conditions, cores: Int32Array) -> None:
        """See LiveIndex."""
        self._open = self.last = None
        self._rate, self.records = 0.0, self.backend.workload.records
        super().begin(workload_seed, conditions, cores)

    def run(self, conditions: Conditions, seconds: float, limit_us: float = 0.0) -> Epoch:
        """See LiveIndex; goes on with the trial that is open."""
        self.last = None
        if self._open is not None:
            self.cores = self._open.after.copy()
        self._records = self.records
        epoch = super().run(conditions, seconds, limit_us)
        self.records = self._live.records()
        self._rate = epoch.snapshot.throughput
        return epoch

    def change(self) -> tuple[list[LiveRound], list[LiveRound]]:
        """Tries it; ``cores`` are the old ones again unless it is kept."""
        trial = self._open or _Open(self.served, self.cores, self._rate)
        self._open = None
        trial.rounds, trial.passed = ([], []), []
        kept, pairs = None, len(trial.gains)
        while kept is None:
            if len(trial.passed) + 2 * (1 + self._most_late) >= self.rounds and trial.passed:
                if len(trial.gains) > pairs and not trial.is_over(pairs):
                    self._open = trial
                break
            kept = self._pair(trial)
        if kept is not None:
            self.last = trial.ended(kept)
        if kept:
            self.served = self.cores.copy()
        else:
            self.cores = self.served.copy()
        self.serve(self.machine.local_schedule(self.cores))
        return trial.passed, trial.rounds[bool(kept)]

    def next_round(self) -> LiveRound:
        """See LiveIndex; takes note of how long queries wait."""
        passed = super().next_round()
        # It is not known where no query was completed.
        if not math.isnan(waited := passed.snapshot.latency_p99_us * 1e-6 / self._seconds):
            self._late = 0 if waited < _SOON else min(math.ceil(waited), self._most_late)
        return passed

    def _pair(self, trial: _Open) -> bool | None:
        """One round under either schedule; see judge() on what it returns.

        Every round begins with a change of the schedule, also to the same one: so both pay for it.
        None as well if the epoch has no time for both: then neither counts.
        """
        first = int(self._rng.integers(2))
        counted: dict[int, LiveRound] = {}
        for side in (first, 1 - first):
            cores = (trial.before, trial.after)[side]
            self.serve(Schedule(cores, self.nodes.copy()))
            if (passed := self._settled(trial.passed)) is None:
                return None
            counted[side] = passed
        for side, passed in counted.items():
            trial.rounds[side].append(passed)
            trial.rates[side].append(passed.snapshot.throughput)
        trial.gains.append(gain(*(rates[-1] for rates in trial.rates)))
        return judge(trial.gains)

    def _settled(self, passed: list[LiveRound]) -> LiveRound | None:
        """The first round that the schedule of the last change has for itself.

        Args:
            passed: of the epoch; gets the rounds that are read.

        Returns:
            None if the epoch ends before.
        """
        changed, behind, late = 0, False, self._late
        while len(passed) + 1 < self.rounds:
            passed.append(self.next_round())
            # How long queries waited may be known only now.
            late = max(late, self._late)
            if passed[-1].switches < self._switches:
                # This reader is behind: the schedule changes somewhere in a later round.
                behind = True
            elif (changed := changed + 1) > behind + late:
                return passed[-1]
        return None
