"""Playing and scoring episodes of spatial scheduling.

A score is normalised per episode: 0 is the mean of random legal schedules, 100 the best schedule
that local search finds with the stated budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded

from pmoss_datasets.fairness import is_ours, policy_stream
from pmoss_datasets.interfaces import Companion, Rollout
from pmoss_datasets.policies import Measured, Planner, Policy, SchedulePolicy, SharedSchedule
from pmoss_env.backends.counted import CountedBackend
from pmoss_env.backends.data_facts import misplaced
from pmoss_env.baselines import local_search, random
from pmoss_env.envs.actions import whole_action
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import (
    DatasetError,
    DescriptionError,
    IllegalActionError,
    UnsupportedError,
)
from pmoss_env.types import Schedule

#: Of an environment's reset, e.g. ``{"incumbent": schedule}``.
Options = Mapping[str, Any]


class Searcher:
    """Has a backend for baselines that search; made in the first episode.

    Attributes:
        searchable: the backend, from the first episode on; it may be asked after every move.
    """

    def __init__(self, env: SpatialSchedulingEnv) -> None:
        self._env = env
        self.searchable: Any = None

    def begin(self) -> None:
        """Takes the workload instance and the co-tenants of the environment's episode."""
        if self.searchable is None:
            self.searchable = self._env.session.new_searchable_backend()
        self.searchable.set_instance(self._env.instance)

    def close(self) -> None:
        """Releases the backend."""
        if self.searchable is not None:
            self.searchable.close()


class SpatialJudge(Searcher):
    """Scores schedules by a backend of the environment's kind, and has one that can be searched.

    On this host it has neither: an evaluation gives throughputs alone.
    """

    def __init__(self, env: SpatialSchedulingEnv) -> None:
        super().__init__(env)
        self._measures = env.backend.measures_host
        self._backend: Any = None

    def begin(self) -> None:
        """Takes the workload instance and the co-tenants of the environment's episode."""
        if self._measures:
            return
        if self._backend is None:
            self._backend = self._env.session.new_backend()
            if self._backend.incremental:
                self.searchable = self._backend
        self._backend.set_instance(self._env.instance)
        super().begin()

    def reference(self, seed: int, budget: int, draws: int) -> tuple[float, float]:
        """Throughputs of the present episode that score 0 and 100, Mq/s; see Judge.

        On this host both are 0: no model can be searched, so that episodes have no score.
        """
        if self._measures:
            return 0.0, 0.0
        context = self._env.context(np.random.default_rng((seed, 0)), self.searchable)
        drawn = [self.throughput(random(context)) for _ in range(draws)]
        context = self._env.context(np.random.default_rng((seed, 1)), self.searchable)
        best = local_search(context, budget)
        if self._backend is self.searchable:
            return float(np.mean(drawn)), best.throughput
        return float(np.mean(drawn)), self.throughput(best.schedule)

    def outcome(self, rollout: Rollout) -> float:
        """Throughput of the rollout's schedule, Mq/s, by the judge's own backend.

        On this host it is what the environment measured.
        """
        if self._measures:
            return rollout.outcome
        if rollout.schedule is None:
            return self.throughput(self._env.schedule)
        with self._env.session.balanced(rollout.balancing) as backend:
            if backend is not None:
                return float(backend.measure(rollout.schedule, seed=0).throughput)
        return self.throughput(rollout.schedule)

    def throughput(self, schedule: Schedule) -> float:
        """Throughput of a schedule on the present instance, Mq/s."""
        if self._backend is self.searchable:
            return float(self.searchable.place(schedule))
        return float(self._backend.measure(schedule, seed=0).throughput)

    def close(self) -> None:
        """Releases the backends."""
        super().close()
        if self._backend is not None:
            self._backend.close()


def play(
    env: SpatialSchedulingEnv, policy: Policy, seed: int, judge: Companion | None, options: Options
) -> Rollout:
    """Plays one episode; see Domain.play.

    Args:
        policy: it is reset first; a Planner also plans. Only a declared search is handed a model,
            which counts what it is asked.
        judge: of the same environment; it has the backend that baselines search on.
    """
    observation, info = env.reset(seed=seed, options=dict(options) or None)
    if judge is not None:
        judge.begin()
    if type(policy) is SharedSchedule:  # no class of others may skip the actions
        schedule = policy.schedule(env.context(stream_for(policy, seed)))
        return finish(env, schedule, policy.balancing)
    counted = counted_for(policy, getattr(judge, "searchable", None))
    began = time.perf_counter()
    policy.reset()
    if isinstance(policy, Planner):
        policy.plan(env.context(stream_for(policy, seed), counted), env.order)
    seconds = time.perf_counter() - began
    observe: Callable[[float], None] | None = getattr(policy, "observe", None)
    actions: list[int] = []
    total, terminated = 0.0, False
    while not terminated:
        began = time.perf_counter()
        mask = info["action_mask"]
        action = whole_action(policy.act(observation, mask), mask.size, "actions are")
        seconds += time.perf_counter() - began
        actions.append(action)
        before = info["throughput"]
        observation, reward, terminated, _, info = env.step(action)
        total += float(reward)
        if observe is not None:
            began = time.perf_counter()
            observe(info["throughput"] - before)
            seconds += time.perf_counter() - began
    if counted is not None:
        counted.close()  # what a policy keeps of it is of no use in the next episode
    measured = (env.incumbent_snapshot, env.final_snapshot())
    return Rollout(
        tuple(actions),
        info["incumbent_throughput"],
        info["throughput"],
        info["illegal_actions"],
        seconds,
        total,
        max(misplaced(snapshot.provenance) for snapshot in measured),
        None if counted is None else counted.evaluations,
        policy.used if type(policy) is Measured else None,
    )


def finish(env: SpatialSchedulingEnv, schedule: Schedule, balancing: bool | None = None) -> Rollout:
    """Ends the environment's episode with a schedule that no actions lead to; see env.finish()."""
    start = env.incumbent_snapshot
    final = env.finish(schedule, balancing)
    gained = final.throughput - (start.throughput if env.reward == "improvement" else 0.0)
    return Rollout(
        (),
        start.throughput,
        final.throughput,
        illegal_actions=0,
        seconds=0.0,
        total=gained,
        misplaced=max(misplaced(snapshot.provenance) for snapshot in (start, final)),
        schedule=schedule,
        balancing=balancing,
    )


def stream_for(policy: Policy, seed: int) -> np.random.Generator:
    """The chance of a planner in the episode of a seed."""
    # Baselines keep the stream of stored results: they are the project's own functions. It is not
    # that of the reference schedules, which must not shift what a baseline draws.
    own = type(policy) in (SchedulePolicy, Measured) and is_ours(policy)
    return np.random.default_rng((seed, 2)) if own else policy_stream(seed)


def counted_for(policy: Policy, searchable: Any) -> CountedBackend | None:
    """The model, behind a counter, for a declared search; None for all other policies.

    A search is declared by ``search_evaluations``, its budget in each episode. Only baselines of
    the project may search without one.
    """
    budget = getattr(policy, "search_evaluations", None)
    searches = isinstance(policy, SchedulePolicy) and policy.searches
    if searchable is None or (budget is None and not searches):
        return None
    unbounded = budget is None and type(policy) is SchedulePolicy and policy.is_own
    if not unbounded and (type(budget) is not int or budget < 1):
        raise DescriptionError(
            f"search_evaluations = {budget!r}: a search declares a whole number from 1, its "
            "evaluations of the model in each episode"
        )
    return CountedBackend(searchable, budget)


def check_repeatable(env: SpatialSchedulingEnv) -> None:
    """Raises UnsupportedError for a backend that measures, and never twice the same."""
    if not env.backend.repeatable:
        raise UnsupportedError(
            f"results of the backend {env.backend.name!r} cannot be replayed: it measures, and "
            "never twice the same"
        )


def rerun(env: SpatialSchedulingEnv, seed: int, actions: Sequence[int]) -> Rollout:
    """Plays recorded actions again; see Domain.rerun."""
    check_repeatable(env)
    _, info = env.reset(seed=seed)
    total, done = 0.0, False
    try:
        for action in actions:
            _, reward, done, _, info = env.step(action)
            total += float(reward)
    except (IllegalActionError, ResetNeeded) as error:
        raise DatasetError(f"the actions cannot be run again: {error}") from error
    if not done:
        raise DatasetError(f"{len(actions)} actions do not end the episode")
    return Rollout(
        tuple(actions),
        info["incumbent_throughput"],
        info["throughput"],
        info["illegal_actions"],
        0.0,
        total,
    )
