"""Back-off for agents whose proposals are reverted, because every trial costs throughput."""

from __future__ import annotations

import numpy as np

from pmoss_env.baselines.load_aware import core_speed
from pmoss_env.context import Context
from pmoss_env.types import Float64Array

#: An agent whose proposals are reverted rests for 1, 3, 7 and then always so many epochs.
_MOST_REST = 15
#: A throughput that is another one by this share ends the rest.
_OTHER_RATE = 0.15
#: So does a core that is faster or slower by this share of its time in so many epochs in a row. A
#: worker with little to do gets its core when it asks, and seems to be faster than it would be.
_OTHER_SPEED, _IN_A_ROW = 0.3, 2


class Backoff:
    """Rests after reverted proposals, until something changes."""

    def __init__(self) -> None:
        self._reverted = self._rest = self._changed = 0
        self._then: tuple[Float64Array, float] | None = None
        self._last: float | None = None

    def asks(self, speeds: Float64Array, rate: float) -> bool:
        """Whether the agent is asked in this epoch.

        Args:
            speeds: (workers,) of the last epoch; see worker_speeds().
            rate: its throughput, Mq/s.
        """
        self._last = rate
        if self._then is not None:
            before, served = self._then
            faster = float(np.abs(speeds - before).max()) > _OTHER_SPEED
            self._changed = self._changed + 1 if faster else 0
            if self._changed >= _IN_A_ROW or abs(rate - served) > _OTHER_RATE * served:
                self._reverted = self._rest = self._changed = 0
                self._then = None
        if self._rest > 0:
            self._rest -= 1
            return False
        return True

    def record(self, kept: bool, speeds: Float64Array, rate: float) -> None:
        """Takes the result of a trial.

        Args:
            speeds: (workers,) of the epoch that it was proposed for.
            rate: Mq/s of the old schedule in the trial's rounds.
        """
        last = self._last
        if not kept and last is not None and abs(rate - last) > _OTHER_RATE * last:
            # Something changed at that time: the proposal was made for an earlier state.
            self._reverted = self._rest = self._changed = 0
            self._then = None
            return
        self._reverted = 0 if kept else self._reverted + 1
        self._rest = 0 if kept else min(_MOST_REST, (1 << self._reverted) - 1)
        self._then = None if kept else (speeds, rate)


def worker_speeds(context: Context) -> Float64Array:
    """(workers,) float64, the share of its time that each worker core had; 1 where not counted.

    Args:
        context: with a snapshot.
    """
    workers = context.machine.workers
    speeds = core_speed(context)
    return np.ones(workers.size) if speeds is None else np.clip(speeds[workers], 0.0, 1.0)
