"""The interface of policies, and baselines as policies."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pmoss_datasets.fairness import check_policy, reads_environment
from pmoss_env.baselines import Baseline, budget_of, is_own, make_baseline, needs_backend
from pmoss_env.context import Context
from pmoss_env.envs.spatial.env import Observation
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import Int8Array, Int32Array, Schedule


@runtime_checkable
class Policy(Protocol):
    """A policy that places slices: an agent, or a schedule made beforehand.

    Two more methods are called where a policy has them. ``observe(reward: float)`` is called after
    every step. Its argument is the step's change of the full schedule's throughput in Mq/s,
    whatever the environment's reward. ``check_env(env: EnvironmentFacts)`` is called once before
    the first episode, and raises if the policy cannot play there. It is shown the facts of the
    environment, not the environment that is played.

    A planner that searches a model declares ``search_evaluations: int``, its budget in each
    episode. ``context.backend`` then counts what it is asked; without a declaration it is None.
    """

    def reset(self) -> None:
        """Begins an episode."""

    def act(self, observation: Observation, action_mask: Int8Array) -> int:
        """The action for the next slice: a tile, or as the environment's action space has it.

        Args:
            action_mask: (actions,) int8, 1 = legal.
        """


@runtime_checkable
class Planner(Policy, Protocol):
    """A policy that plans a whole episode at its beginning, from more than one observation.

    It may run schedules before it decides, as often as ``context.measurements`` allows. Where that
    is None, or nothing is left of it, the planner decides by the incumbent's counters alone.
    """

    def plan(self, context: Context, order: Int32Array) -> None:
        """Plans the episode; called after reset().

        Args:
            order: (slices,) int32, the slice placed at each step.
        """


@reads_environment
class Measured:
    """A policy that may run some schedules of each episode before it decides.

    A Planner finds the budget in ``context.measurements``. Its context has no other backend, so
    that nothing else tells it a throughput. Other policies play as ever.
    """

    def __init__(self, policy: Policy, budget: int) -> None:
        """Takes the policy that plays.

        Args:
            policy: to which the budget is given.
            budget: evaluations per episode of a backend like the environment's.

        Raises:
            DescriptionError: a negative budget, or one that is no whole number.
        """
        if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget < 0:
            raise DescriptionError(f"measurements = {budget}: must be a whole number from 0")
        self._policy, self._budget = policy, int(budget)
        self._session: Any = None
        self._backend: Any = None
        self._planned: Any = None  # the instance of the latest plan
        #: Measurements of the latest episode, and seconds that its backend took for them.
        self.used, self.seconds = 0, 0.0

    @property
    def is_own(self) -> bool:
        """Whether a baseline of the project is measured."""
        return type(self._policy) is SchedulePolicy and self._policy.is_own

    def check_env(self, env: Any) -> None:
        """Takes the environment whose episodes are measured.

        Raises:
            UnsupportedError: its schedules cannot be measured.
            PmossError: what the policy's own check raises.
        """
        session = getattr(getattr(env, "unwrapped", env), "session", None)
        if not hasattr(session, "measurements"):
            raise UnsupportedError(
                "measurements: this environment has no schedules that could be run; "
                "pmoss/SpatialScheduling-v0 has"
            )
        self.close()
        self._session = session
        check_policy(self._policy, env)

    def reset(self) -> None:
        """Begins an episode."""
        self._policy.reset()

    def plan(self, context: Context, order: Int32Array) -> None:
        """Lets a Planner measure and plan.

        Raises:
            UnsupportedError: check_env() was not called, or the episode was planned before.
        """
        self.used, self.seconds = 0, 0.0
        if not isinstance(self._policy, Planner):
            return
        if self._session is None:
            raise UnsupportedError("measurements: call check_env(env) first")
        # A policy that holds its wrapper would else have as many budgets as it likes.
        if self._session.instance is self._planned:
            raise UnsupportedError("measurements: an episode is planned once")
        self._planned = self._session.instance
        if self._backend is None:
            self._backend = self._session.new_backend()
        self._backend.set_instance(self._planned)
        measurements = self._session.measurements(self._backend, self._budget)
        with closing(measurements):
            self._policy.plan(replace(context, backend=None, measurements=measurements), order)
        self.used, self.seconds = measurements.used, measurements.seconds

    def act(self, observation: Observation, action_mask: Int8Array) -> int:
        """The policy's action."""
        return self._policy.act(observation, action_mask)

    def observe(self, reward: float) -> None:
        """Tells the policy what its last action changed."""
        if (observe := getattr(self._policy, "observe", None)) is not None:
            observe(reward)

    def close(self) -> None:
        """Releases the backend. Safe to repeat."""
        if self._backend is not None:
            self._backend.close()
        self._backend = None


def planned_actions(
    machine: Machine, schedule: Schedule, order: Int32Array, chooses_node: bool
) -> Int32Array:
    """(slices,) int32: the actions that place a schedule.

    Args:
        order: (slices,) the slice placed at each step.
        chooses_node: whether actions name the nodes of data, too.
    """
    tiles = machine.tile_of_core[schedule.cores[order]]
    chosen = tiles * machine.nodes + schedule.nodes[order] if chooses_node else tiles
    return chosen.astype(np.int32)


class SchedulePolicy:
    """Runs a baseline through an environment's steps.

    A baseline plans the whole episode at once and may look at more than an observation holds.
    Rollouts therefore give it the episode's context with plan().
    """

    def __init__(self, baseline: str | Baseline) -> None:
        """Takes a baseline's name or the function itself; raises UnknownNameError."""
        self._baseline = make_baseline(baseline) if isinstance(baseline, str) else baseline
        self._actions: list[int] = []
        self._t = 0

    @property
    def is_own(self) -> bool:
        """Whether it is a baseline of the project."""
        return is_own(self._baseline)

    @property
    def searches(self) -> bool:
        """Whether the baseline evaluates schedules on a backend."""
        return needs_backend(self._baseline)

    @property
    def search_evaluations(self) -> int | None:
        """Evaluations that a search may ask for; None: any number, or it is no search."""
        return budget_of(self._baseline) if self.searches else None

    def plan(self, context: Context, order: Int32Array) -> None:
        """Makes the schedule of an episode that places the slices in ``order``."""
        schedule = self._baseline(context)
        chosen = planned_actions(context.machine, schedule, order, context.chooses_node)
        self._actions = chosen.tolist()

    def reset(self) -> None:
        """Begins an episode."""
        self._t = 0

    def act(self, observation: Observation, action_mask: Int8Array) -> int:
        """The planned action for the next slice."""
        action = self._actions[self._t]
        self._t += 1
        return action

    def observe(self, reward: float) -> None:
        """Nothing: the plan is made."""


class SharedSchedule(SchedulePolicy):
    """A schedule whose workers share slices, such as what Linux does by itself.

    No actions lead to it. So an episode ends with it at once: SpatialSchedulingEnv.finish().
    """

    def __init__(self, baseline: str, balancing: bool | None = None) -> None:
        """Takes the name of one of SHARED_BASELINES; raises UnknownNameError for another.

        ``balancing`` is the kernel's automatic NUMA balancing meanwhile; None keeps it as it is.
        """
        super().__init__(make_baseline(baseline, shared=True))
        self.balancing = balancing

    def schedule(self, context: Context) -> Schedule:
        """The schedule of an episode."""
        return self._baseline(context)

    def plan(self, context: Context, order: Int32Array) -> None:
        """Raises UnsupportedError: no actions lead to the schedule."""
        raise UnsupportedError(
            "workers share slices: no actions lead to this schedule; evaluations and rollouts "
            "measure it as a whole"
        )
