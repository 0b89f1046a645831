"""Oracles of continual scheduling: they know parts of the drift that no counter shows.

They show how much there is to gain, and are no opponents.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from pmoss_datasets.continual.rounds import Move, RoundPolicy, need_described
from pmoss_datasets.continual.search import thorough_moves
from pmoss_datasets.continual.worlds import World, free_time, improved
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Int32Array


class Oracle(RoundPolicy):
    """Plans in the true machine, under conditions that it knows.

    Args:
        price: of a move between nodes, as a share of the throughput.
    """

    #: Number of equally likely worlds.
    _count = 1

    def __init__(self, price: float = 0.002) -> None:
        super().__init__()
        self._price = price

    def check_env(self, env: Any) -> None:
        """Refuses this host, and a machine without parameters."""
        if env.unwrapped.arguments.on_host:
            raise UnsupportedError(
                f"{self.name}: oracles plan in the true machine, which is unknown on a host; "
                "choose another policy"
            )
        need_described(env, self.name)

    def start(self) -> None:
        """See RoundPolicy."""
        session = self.env.session
        self._worlds = [World(session, session.index.native) for _ in range(self._count)]

    @abstractmethod
    def conditions(self, world: int) -> Conditions:
        """The conditions of the next epoch in one world."""

    def plan(self, cores: Int32Array) -> list[Move]:
        """Searches under the believed conditions."""
        believed = [self.conditions(number) for number in range(len(self._worlds))]
        for world, state in zip(self._worlds, believed, strict=True):
            world.believe(state.co_tenants, state.demand)
        return self.search(believed, cores)

    def search(self, believed: Sequence[Conditions], cores: Int32Array) -> list[Move]:
        """Moves that serve more in the mean over the believed conditions, one of each world."""
        return improved(self._worlds, cores, self.max_moves, self._price)


class Delayed(Oracle):
    """Knows what the last epoch was like."""

    def conditions(self, world: int) -> Conditions:
        """The conditions of the last epoch."""
        session = self.env.session
        return session.conditions(session.epoch)  # type: ignore[no-any-return]


class Law(Oracle):
    """Knows the last epoch and the law of the drift: plans for equally likely futures of it."""

    _count = 3

    def conditions(self, world: int) -> Conditions:
        """One draw."""
        session = self.env.session
        return session.sample_conditions(session.epoch + 1, self.rng)  # type: ignore[no-any-return]


class Now(Oracle):
    """Knows what the next epoch will be like, beyond all that looks back."""

    def conditions(self, world: int) -> Conditions:
        """The conditions of the next epoch."""
        session = self.env.session
        return session.conditions(session.epoch + 1)  # type: ignore[no-any-return]


class ThoroughLaw(Oracle):
    """Knows what Law knows, looks several epochs ahead, and searches thoroughly.

    Law searches as the planners do. This one tells what the law of the drift is worth to a better
    search; see thorough_moves().

    Args:
        ahead: epochs that it plans for; each weighs less than the one before.
    """

    #: Futures of the next epoch, of which the n-th epoch has the n-th part.
    _draws = 8
    #: What an epoch weighs of the one before it.
    _FADE = 0.7

    def __init__(self, price: float = 0.0002, ahead: int = 4) -> None:
        super().__init__(price)
        counts = [max(1, self._draws // number) for number in range(1, ahead + 1)]
        self._ahead = np.repeat(np.arange(1, ahead + 1), counts)
        self._weights = np.repeat(self._FADE ** np.arange(ahead) / counts, counts)
        self._count = len(self._ahead)

    def conditions(self, world: int) -> Conditions:
        """One draw of one of the epochs ahead."""
        session, ahead = self.env.session, int(self._ahead[world])
        return session.sample_conditions(session.epoch + ahead, self.rng, ahead)  # type: ignore[no-any-return]

    def search(self, believed: Sequence[Conditions], cores: Int32Array) -> list[Move]:
        """See Oracle."""
        machine = self.env.session.machine
        speeds = np.stack([free_time(machine, state.co_tenants) for state in believed])
        return thorough_moves(
            self._worlds, self._weights, speeds, cores, self.max_moves, self._price
        )


class ThoroughNow(ThoroughLaw):
    """Knows what the next epochs will be like, and searches thoroughly: a ceiling."""

    _draws = 1

    def conditions(self, world: int) -> Conditions:
        """The conditions of one of the epochs ahead, of the last one where the episode ends."""
        session = self.env.session
        epoch = session.epoch + int(self._ahead[world])
        return session.conditions(min(epoch, session.arguments.epochs))  # type: ignore[no-any-return]
