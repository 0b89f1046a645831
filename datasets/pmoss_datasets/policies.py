"""What places slices: the interface of policies, and baselines as policies."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pmoss_env.baselines import Baseline, Context, asks, make_baseline
from pmoss_env.envs.spatial.env import Observation
from pmoss_env.types import Int8Array, Int32Array


@runtime_checkable
class Policy(Protocol):
    """Whatever places slices: an agent, or a schedule made beforehand.

    Two more methods are called where a policy has them. ``observe(reward: float)`` is called after
    every step. Its argument is the step's change of the full schedule's throughput in Mq/s,
    whatever the environment's reward. ``check_env(env: SpatialSchedulingEnv)`` is called once
    before the first episode, and raises if the policy cannot play there.
    """

    def reset(self) -> None:
        """Begins an episode."""

    def act(self, observation: Observation, action_mask: Int8Array) -> int:
        """The tile for the next slice.

        Args:
            observation: as the environment gives it.
            action_mask: (r * c,) int8, 1 = legal.
        """


@runtime_checkable
class Planner(Policy, Protocol):
    """A policy that plans a whole episode at its beginning, from more than one observation."""

    def plan(self, context: Context, order: Int32Array) -> None:
        """Plans the episode; called after reset().

        Args:
            context: of the episode.
            order: (slices,) int32, the slice placed at each step.
        """


class SchedulePolicy:
    """Runs a baseline through an environment's steps.

    A baseline plans the whole episode at once and may look at more than an observation holds.
    Rollouts therefore give it the episode's context with plan().
    """

    def __init__(self, baseline: str | Baseline) -> None:
        """Takes a baseline's name or the function itself; raises UnknownNameError."""
        self._baseline = make_baseline(baseline) if isinstance(baseline, str) else baseline
        #: Whether the baseline asks a backend that can be searched.
        self.searches = asks(self._baseline)
        self._tiles: list[int] = []
        self._t = 0

    def plan(self, context: Context, order: Int32Array) -> None:
        """Makes the schedule of an episode that places the slices in ``order``."""
        schedule = self._baseline(context)
        self._tiles = context.machine.tile_of_core[schedule.cores[order]].tolist()

    def reset(self) -> None:
        """Begins an episode."""
        self._t = 0

    def act(self, observation: Observation, action_mask: Int8Array) -> int:
        """The planned tile of the next slice."""
        tile = self._tiles[self._t]
        self._t += 1
        return tile

    def observe(self, reward: float) -> None:
        """Nothing: the plan is made."""
