"""When an agent is asked again whose proposals were reverted: trials of what is no better cost."""

from __future__ import annotations

import numpy as np

from pmoss_env.baselines.load_aware import core_speed
from pmoss_env.context import Context
from pmoss_env.types import Float64Array

#: An agent whose proposals are reverted rests for 0, 1, 3, 7 and then always so many epochs.
_MOST_REST = 15
#: A core that is faster or slower by this share of its time than it was ends the rest.
_CHANGED = 0.15


class Backoff:
    """Rests after reverted proposals, until something changes."""

    def __init__(self) -> None:
        self._reverted = self._rest = 0
        self._then: Float64Array | None = None

    def asks(self, speeds: Float64Array) -> bool:
        """Whether the agent is asked in this epoch.

        Args:
            speeds: (workers,) of the last epoch; see worker_speeds().
        """
        if self._then is not None and np.abs(speeds - self._then).max() > _CHANGED:
            self._reverted = self._rest = 0
            self._then = None
        if self._rest > 0:
            self._rest -= 1
            return False
        return True

    def tell(self, kept: bool, speeds: Float64Array) -> None:
        """Takes what came of a trial.

        Args:
            kept: its verdict.
            speeds: (workers,) of the epoch that it was proposed for.
        """
        self._reverted = 0 if kept else self._reverted + 1
        self._rest = 0 if kept else min(_MOST_REST, (1 << (self._reverted - 1)) - 1)
        self._then = None if kept else speeds


def worker_speeds(context: Context) -> Float64Array:
    """(workers,) float64, the share of its time that each worker core had; 1 where not counted.

    Args:
        context: with a snapshot.
    """
    workers = context.machine.workers
    found = core_speed(context)
    return np.ones(workers.size) if found is None else np.clip(found[workers], 0.0, 1.0)
