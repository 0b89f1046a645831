"""Oracles of continual scheduling: what they know of the drift, no counter tells.

They show how much there is to gain, and are no opponents.
"""

from __future__ import annotations

from abc import abstractmethod

from pmoss_datasets.continual.rounds import Move, RoundPolicy
from pmoss_datasets.continual.worlds import World, improved
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.types import Int32Array


class Oracle(RoundPolicy):
    """Plans in the machine as it really is, under conditions that it knows.

    Args:
        price: of a move between nodes, as a share of the throughput.
    """

    def __init__(self, price: float = 0.002) -> None:
        super().__init__()
        self._price = price

    def start(self) -> None:
        """See RoundPolicy."""
        session = self.env.session
        self._worlds = [World(session, session.index.native) for _ in range(self._count())]

    def _count(self) -> int:
        """How many worlds are equally likely."""
        return 1

    @abstractmethod
    def conditions(self, world: int) -> Conditions:
        """Of the next epoch, as they are believed to be in one world."""

    def plan(self, cores: Int32Array) -> list[Move]:
        """Searches in what is believed."""
        for number, world in enumerate(self._worlds):
            believed = self.conditions(number)
            world.believe(believed.co_tenants, believed.shift)
        return improved(self._worlds, cores, self.most, self._price)


class Delayed(Oracle):
    """Knows what the last epoch was like."""

    def conditions(self, world: int) -> Conditions:
        """Those of the last epoch."""
        session = self.env.session
        return session.conditions(session.epoch)  # type: ignore[no-any-return]


class Law(Oracle):
    """Knows the last epoch and the law of the drift: draws what may come next from it.

    Args:
        price: as of Oracle.
        draws: futures that it plans for, all equally likely.
    """

    def __init__(self, price: float = 0.002, draws: int = 3) -> None:
        super().__init__(price)
        self._draws = draws

    def _count(self) -> int:
        return self._draws

    def conditions(self, world: int) -> Conditions:
        """One draw."""
        session = self.env.session
        return session.foretold(session.epoch + 1, self.rng)  # type: ignore[no-any-return]


class Now(Oracle):
    """Knows what the next epoch will be like: a ceiling, beyond all that looks back."""

    def conditions(self, world: int) -> Conditions:
        """Those of the next epoch."""
        session = self.env.session
        return session.conditions(session.epoch + 1)  # type: ignore[no-any-return]
