"""Scores of schedules: what 0 and 100 are in an episode."""

from __future__ import annotations

import numpy as np

from pmoss_env.backends import incremental
from pmoss_env.baselines import local_search, random
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.types import Instance, Schedule


class Judge:
    """Scores schedules by a backend of the environment's kind, and has one that can be searched."""

    def __init__(self, env: SpatialSchedulingEnv) -> None:
        self._backend = env.session.new_backend()
        self.searchable = incremental(self._backend) or env.session.new_searchable_backend()

    def set_instance(self, instance: Instance) -> None:
        """Takes the workload instance and the co-tenants of an episode."""
        self._backend.set_instance(instance)
        self.searchable.set_instance(instance)

    def throughput(self, schedule: Schedule) -> float:
        """Of the present instance, Mq/s."""
        if self._backend is self.searchable:
            return self.searchable.place(schedule)
        return self._backend.measure(schedule, seed=0).throughput

    def reference(
        self, env: SpatialSchedulingEnv, seed: int, budget: int, schedules: int
    ) -> tuple[float, float]:
        """Throughputs of the present episode that score 0 and 100."""
        context = env.context(np.random.default_rng((seed, 0)), self.searchable)
        drawn = [self.throughput(random(context)) for _ in range(schedules)]
        context = env.context(np.random.default_rng((seed, 1)), self.searchable)
        found = local_search(context, budget)
        if self._backend is self.searchable:
            return float(np.mean(drawn)), found.throughput
        return float(np.mean(drawn)), self.throughput(found.schedule)

    def close(self) -> None:
        """Releases the backends."""
        self._backend.close()
        self.searchable.close()


def score_of(final: float, low: float, high: float) -> float | None:
    """A throughput on the scale from ``low``, 0, to ``high``, 100; None if high is not above."""
    return 100 * (final - low) / (high - low) if high > low else None
