"""Planners of continual scheduling: the analytic model under co-tenants fitted to the counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from pmoss_datasets.continual.fitting import Fit, co_tenants
from pmoss_datasets.continual.rounds import Move, RoundPolicy, need_described
from pmoss_datasets.continual.worlds import World, improved
from pmoss_env.envs.continual.drift import Demand
from pmoss_env.types import Float64Array, Int32Array

#: Futures that a policy may plan for, those of all epochs together: each is a model in memory.
MOST_FUTURES = 4096
#: Periods that the seasonal planner looks for, and epochs that it judges them by.
_LONGEST_PERIOD, _JUDGED = 24, 12


class FittedPlanner(RoundPolicy):
    """Plans in the described machine, under the co-tenants that explain the last epoch.

    See Fit on how they are found. A subclass may forecast others for the next epoch. A load that
    moves along the index is taken to move on.

    Args:
        price: of a move between nodes, as a share of the throughput.
        futures: that it plans for, all equally likely.
    """

    def __init__(self, price: float = 0.002, futures: int = 1) -> None:
        super().__init__()
        self._price, self._futures = price, futures

    def check_env(self, env: Any) -> None:
        """Refuses a machine without parameters."""
        need_described(env, self.name)

    def start(self) -> None:
        """See RoundPolicy."""
        session = self.env.session
        self._worlds = [World(session) for _ in range(self._futures)]
        self._fit = Fit(self._worlds[0])
        self._past_asked: list[Demand] = []

    def asked(self) -> Demand:
        """The demand of the last epoch: the index counts its queries itself."""
        session = self.env.session
        asked: Demand = session.drift.conditions(session.epoch).demand
        self._past_asked = [*self._past_asked[-2:], asked]
        return asked

    def ahead(self, epochs: int = 1) -> Demand:
        """The demand of a coming epoch, by its course so far; call it after asked().

        A load that moves along the index moves on. Of its last two steps it repeats the shorter
        one: a jump is not repeated.

        Args:
            epochs: after the last one, from 1.
        """
        slices, half = self.env.slices, self.env.slices // 2
        steps = [
            (after.shift - before.shift + half) % slices - half
            for before, after in pairwise(self._past_asked)
        ]
        last = self._past_asked[-1]
        return replace(last, shift=last.shift + epochs * min(steps, key=abs, default=0))

    def plan(self, cores: Int32Array) -> list[Move]:
        """Fits, forecasts, and searches."""
        session = self.env.session
        self._fit.see(session.cores_seen, session.snapshot.slice_counters, self.asked())
        futures = self.forecast(self._fit.shares)
        for world, shares in zip(self._worlds, futures, strict=True):
            world.believe(co_tenants(session.machine, shares), self.ahead())
        return improved(self._worlds, cores, self.max_moves, self._price)

    def forecast(self, shares: Float64Array) -> Sequence[Float64Array]:
        """Shares that co-tenants may take in the next epoch, one set for each future.

        Args:
            shares: (cores + nodes,) of the last epoch; see co_tenants().
        """
        return [shares] * self._futures


class SeasonalPlanner(FittedPlanner):
    """Takes the co-tenants of one period before, of the period that forecast best."""

    def start(self) -> None:
        """See RoundPolicy."""
        super().start()
        self._past: list[Float64Array] = []

    def forecast(self, shares: Float64Array) -> Sequence[Float64Array]:
        """The shares one period before the next epoch; the present ones, if none was better."""
        self._past.append(shares)
        past, now = self._past, len(self._past)
        best, best_period = np.inf, 1
        for period in range(1, min(_LONGEST_PERIOD, now - 3) + 1):
            judged = range(max(period, now - _JUDGED), now)
            wrong = float(np.mean([np.abs(past[t] - past[t - period]).mean() for t in judged]))
            # A longer period must be clearly better.
            wrong *= 1.0 if period == 1 else 1.1
            if wrong < best:
                best, best_period = wrong, period
        return [past[now - best_period]] * self._futures
