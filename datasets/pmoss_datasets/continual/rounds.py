"""The base of policies for continual scheduling: a round of moves before each epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import index
from typing import Any

import numpy as np

from pmoss_env.errors import PolicyError, UnsupportedError
from pmoss_env.types import Int8Array, Int32Array

#: A slice and the core that it goes to.
Move = tuple[int, int]


class RoundPolicy(ABC):
    """Decides a whole round of moves at its beginning, and makes them one by one.

    Attributes:
        name: by which it was asked for; that of its class otherwise.
        env: of the episode, without wrappers.
        expected: share by which the last round's moves should raise the throughput; None where the
            policy predicts nothing, or moves nothing.
    """

    name: str
    env: Any
    rng: np.random.Generator

    def __init__(self) -> None:
        self.name = type(self).__name__
        self._moves: list[Move] = []
        self.expected: float | None = None

    def begin(self, env: Any, rng: np.random.Generator) -> None:
        """Takes the environment and the chance of an episode that has just begun."""
        self.check_env(env)
        self.env, self.rng = env.unwrapped, rng
        self._moves, self.expected = [], None
        self.start()

    def check_env(self, env: Any) -> None:
        """Refuses an environment that it cannot play in, before the first episode.

        Raises:
            UnsupportedError: it lacks what the policy plans in.
        """
        return None

    def start(self) -> None:
        """Forgets the episode before."""
        return None

    def reset(self) -> None:
        """See begin()."""
        return None

    @property
    def max_moves(self) -> int:
        """Moves of a round."""
        return int(self.env.arguments.moves_per_epoch)

    def act(self, observation: Any, action_mask: Int8Array) -> Any:
        """The next move; "leave it for now" where the round has no more.

        Two int32: slice and tile.

        Args:
            action_mask: (S + 1 + tiles,) of both parts.

        Raises:
            PolicyError: plan() gave something else than moves.
        """
        slices, machine = self.env.slices, self.env.machine
        if observation["moves_left"][0] == 1.0:
            plan = self.plan(machine.core_of_tile[observation["slice_tiles"]])
            self._moves = _checked(plan, slices, machine.cores, self.name)[: self.max_moves]
        while self._moves:
            slice_, core = self._moves.pop(0)
            if action_mask[slice_]:
                return np.array([slice_, machine.tile_of_core[core]], dtype=np.int32)
        first = int(np.argmax(action_mask[slices + 1 :]))
        return np.array([slices, first], dtype=np.int32)

    @abstractmethod
    def plan(self, cores: Int32Array) -> list[Move]:
        """The moves of a round, the most urgent first; those beyond ``max_moves`` are left out.

        Args:
            cores: (slices,) that serve the slices now.
        """


def _checked(plan: Any, slices: int, cores: int, who: str) -> list[Move]:
    """The moves of a plan of any policy; PolicyError if they are no moves."""
    try:
        moves = [(index(slice_), index(core)) for slice_, core in plan]
    except (TypeError, ValueError) as error:
        raise PolicyError(
            f"{who}: planned {plan!r:.80}; wanted is a list of (slice, core)"
        ) from error
    for slice_, core in moves:
        if not (0 <= slice_ < slices and 0 <= core < cores):
            raise PolicyError(
                f"{who}: planned the move {(slice_, core)}; slices are 0 to {slices - 1}, cores 0 "
                f"to {cores - 1}"
            )
    return moves


def need_described(env: Any, who: str) -> None:
    """Refuses a machine without the parameters that planning needs.

    Raises:
        UnsupportedError: the machine has no parameters.
    """
    machine = env.unwrapped.machine
    if not machine.parameters:
        raise UnsupportedError(
            f"{who}: plans in a model of the machine, and machine {machine.name!r} has no "
            "parameters. Choose one that needs no description: repair, kernel-like, tries, or the "
            "agent learned-repair"
        )


def moves_between(before: Int32Array, after: Int32Array) -> list[Move]:
    """The moves that lead from one schedule to another."""
    return [(int(s), int(after[s])) for s in np.flatnonzero(before != after)]
