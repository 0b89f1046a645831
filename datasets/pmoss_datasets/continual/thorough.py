"""A planner that separates the cores' own losses from co-tenants, and searches thoroughly.

By itself it foresees nothing: the next epoch is taken to be like the last one. So it shows what an
agent that foresees gains by its search alone.
"""

from __future__ import annotations

import numpy as np

from pmoss_datasets.continual.fitting import Fit, co_tenants
from pmoss_datasets.continual.planners import FittedPlanner
from pmoss_datasets.continual.rounds import Move
from pmoss_datasets.continual.search import thorough_moves
from pmoss_datasets.continual.worlds import World
from pmoss_env.envs.continual.drift import DEFAULT_DEMAND, Demand
from pmoss_env.types import COUNTER_INDEX, Float64Array, Int32Array

#: A core that loses a lower share of its time has no co-tenant.
QUIET = 0.2
#: Quantile of a node's costs of a miss that is taken for the cost without streams.
CALM = 0.35
#: What an epoch weighs of the one before it, where several are planned for.
_FADE = 0.7


class Reading:
    """Estimates of co-tenants and of the cores' own losses, from counters epoch by epoch.

    Attributes:
        own: (cores,) share of its time that each core loses by itself.

    Args:
        world: asked what counters would be; what it believes changes.
        quiet: a core that loses a lower share of its time has no co-tenant: what it loses is its
            own. 0: what it loses is never its own.
    """

    def __init__(self, world: World, quiet: float, calm: float = 0.0) -> None:
        self._fit, self._quiet = Fit(world, calm), quiet
        cores = world.machine.cores
        self._sum, self._times = np.zeros(cores), np.zeros(cores)
        self.own: Float64Array = np.zeros(cores)

    def see(
        self, cores: Int32Array, counters: Float64Array, asked: Demand = DEFAULT_DEMAND
    ) -> Float64Array:
        """(cores + nodes,) shares that co-tenants took, the own loss of busy cores included.

        Args:
            cores: see Fit.see(), as of the others.
            counters: of the epoch.
        """
        self._fit.see(cores, counters, asked)
        shares = self._fit.shares
        if self._quiet:
            count = self.own.size
            elapsed, work = (
                np.bincount(cores, counters[:, COUNTER_INDEX[name]], count)
                for name in ("elapsed_us", "task_clock_us")
            )
            lost = 1.0 - np.divide(work, elapsed, out=np.zeros(count), where=elapsed > 0)
            calm = (elapsed > 0) & (lost < self._quiet)
            self._sum += np.where(calm, lost, 0.0)
            self._times += calm
            self.own = np.maximum(self._sum / np.maximum(self._times, 1.0), 0.0)
            shares[:count] = np.where(shares[:count] < self._quiet, 0.0, shares[:count])
        return shares

    def believed(self, shares: Float64Array) -> Float64Array:
        """(cores + nodes,) what a core loses to co-tenants or by itself, whichever is more."""
        count = self.own.size
        return np.concatenate([np.maximum(shares[:count], self.own), shares[count:]])


class ThoroughPlanner(FittedPlanner):
    """Reads, forecasts and searches; see the module's docstring.

    Args:
        price: of a move between nodes, as a share of the throughput.
        futures: of each epoch that it plans for, all equally likely.
        ahead: how many epochs it plans for; later ones weigh less.
    """

    def __init__(
        self,
        price: float = 0.0005,
        futures: int = 1,
        ahead: int = 1,
        quiet: float = QUIET,
        calm: float = CALM,
    ) -> None:
        super().__init__(price, futures * ahead)
        self._weights = np.repeat(_FADE ** np.arange(ahead), futures)
        self._ahead = np.repeat(np.arange(1, ahead + 1), futures)
        self._quiet, self._calm = quiet, calm

    def start(self) -> None:
        """See RoundPolicy."""
        super().start()
        self._reading = Reading(self._worlds[0], self._quiet, self._calm)

    def plan(self, cores: Int32Array) -> list[Move]:
        """Reads, forecasts, and searches."""
        session, reading = self.env.session, self._reading
        asked = self.asked()
        shares_now = reading.see(session.cores_seen, session.snapshot.slice_counters, asked)
        believed = [reading.believed(shares) for shares in self.forecast(shares_now)]
        for world, shares, ahead in zip(self._worlds, believed, self._ahead, strict=True):
            world.believe(co_tenants(session.machine, shares), self.ahead(int(ahead)))
        speeds = 1.0 - np.stack(believed)[:, session.machine.workers]
        return thorough_moves(
            self._worlds, self._weights, speeds, cores, self.max_moves, self._price
        )
