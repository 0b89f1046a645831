"""Playing episodes with policies, and scoring what they end with.

Every policy meets the same episodes. A score is normalised per episode: 0 is the mean of random
legal schedules, 100 the best schedule that local search finds with the stated budget.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, cast

import gymnasium
import numpy as np

from pmoss_benchmarks.evaluation.results import EpisodeResult, Evaluation
from pmoss_benchmarks.evaluation.scoring import Judge, score_of
from pmoss_env.backends.base import Backend
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.policies import Policy, SchedulePolicy
from pmoss_env.types import Schedule

DEFAULT_ENV = "pmoss/SpatialScheduling-v0"

#: progress(episodes done, episodes in all) after every episode.
Progress = Callable[[int, int], None]


def episode_seed(seed: int, episode: int) -> int:
    """The environment's seed of an episode: the same for every policy."""
    return int(np.random.SeedSequence((seed, episode)).generate_state(1)[0])


def evaluate(
    env_kwargs: Mapping[str, Any],
    policies: Mapping[str, Policy | Callable[[int], Policy]],
    seeds: Sequence[int],
    episodes_per_seed: int = 10,
    search_budget: int = 2000,
    random_schedules: int = 100,
    progress: Progress | None = None,
    env_id: str = DEFAULT_ENV,
    references: MutableMapping[int, tuple[float, float]] | None = None,
) -> Evaluation:
    """Runs every policy through the same episodes.

    Args:
        env_kwargs: of the environment, plain JSON.
        policies: by name: a policy, or a function that gives the policy of a seed (an agent
            trained with it). All are asked for, and asked to check the environment, before the
            first episode.
        seeds: non-negative, at least five for a table.
        episodes_per_seed: each with its own workload instance, neighbours and incumbent.
        search_budget: model evaluations of the search that defines a score of 100; it asks the
            analytic model where the environment's backend cannot be asked after every move.
        random_schedules: how many define a score of 0.
        progress: called with (episodes done, episodes in all) after each.
        env_id: a registered id.
        references: throughputs of score 0 and 100 by the environment's seed, of earlier calls with
            the same environment, budget and number of schedules; new ones are added.

    Raises:
        UnsupportedError: a machine that cannot be searched because it has no model.
        DescriptionError: no seeds, episodes, schedules or policies; or an argument that the
            environment does not have.
        UnknownNameError: no such environment.
        PmossError: what a policy's check_env() raises, such as CheckpointError.
    """
    for name, count in (
        ("seeds", len(seeds)),
        ("episodes_per_seed", episodes_per_seed),
        ("random_schedules", random_schedules),
        ("policies", len(policies)),
    ):
        if count < 1:
            raise DescriptionError(f"{name} = {count}: must be at least 1")
    env = make_environment(env_id, env_kwargs)
    judge: Judge | None = None
    known = {} if references is None else references
    rows: list[EpisodeResult] = []
    total = len(policies) * len(seeds) * episodes_per_seed
    try:
        of_seeds = [
            {name: _policy_of_seed(policy, seed) for name, policy in policies.items()}
            for seed in seeds
        ]
        for policy in {id(p): p for of_seed in of_seeds for p in of_seed.values()}.values():
            if (check_env := getattr(policy, "check_env", None)) is not None:
                check_env(env)
        for seed, of_seed in zip(seeds, of_seeds, strict=True):
            for episode in range(episodes_per_seed):
                env_seed = episode_seed(seed, episode)
                env.reset(seed=env_seed)
                if judge is None:
                    judge = Judge(env)
                judge.set_instance(env.instance)
                if env_seed not in known:
                    known[env_seed] = judge.reference(
                        env, env_seed, search_budget, random_schedules
                    )
                low, high = known[env_seed]
                for name, policy in of_seed.items():
                    actions, info, seconds = rollout(env, policy, env_seed, judge.searchable)
                    final = judge.throughput(env.schedule)
                    rows.append(
                        EpisodeResult(
                            policy=name,
                            seed=seed,
                            episode=episode,
                            env_seed=env_seed,
                            incumbent_throughput=info["incumbent_throughput"],
                            throughput=info["throughput"],
                            score=score_of(final, low, high),
                            random_throughput=low,
                            search_throughput=high,
                            illegal_actions=info["illegal_actions"],
                            actions=tuple(actions),
                            seconds_per_decision=seconds / len(actions),
                        )
                    )
                    if progress is not None:
                        progress(len(rows), total)
    finally:
        env.close()
        if judge is not None:
            judge.close()
    return Evaluation(env_id, dict(env_kwargs), search_budget, random_schedules, rows)


def _policy_of_seed(policy: Policy | Callable[[int], Policy], seed: int) -> Policy:
    # A class has the methods of its instances, but makes a policy instead of being one.
    if isinstance(policy, Policy) and not isinstance(policy, type):
        return policy
    return cast(Callable[[int], Policy], policy)(seed)


def rollout(
    env: SpatialSchedulingEnv,
    policy: Policy,
    seed: int,
    backend: Backend | None = None,
    incumbent: Schedule | None = None,
) -> tuple[list[int], dict[str, Any], float]:
    """Plays one episode.

    Args:
        env: the bare environment.
        policy: it is reset first; a SchedulePolicy also plans. See Policy on what else is called.
        seed: of the environment's reset.
        backend: for baselines that search; not the environment's own.
        incumbent: to start from, instead of one that the seed draws.

    Returns:
        The actions, the last info, and the policy's wall time in seconds.
    """
    options = None if incumbent is None else {"incumbent": incumbent}
    observation, info = env.reset(seed=seed, options=options)
    if backend is not None:
        backend.set_instance(env.instance)
    began = time.perf_counter()
    policy.reset()
    if isinstance(policy, SchedulePolicy):
        # A stream of its own: the reference schedules must not shift what a baseline draws.
        policy.plan(env.context(np.random.default_rng((seed, 2)), backend), env.order)
    seconds = time.perf_counter() - began
    observe: Callable[[float], None] | None = getattr(policy, "observe", None)
    actions: list[int] = []
    terminated = False
    while not terminated:
        began = time.perf_counter()
        action = int(policy.act(observation, info["action_mask"]))
        seconds += time.perf_counter() - began
        actions.append(action)
        before = info["throughput"]
        observation, _, terminated, _, info = env.step(action)
        if observe is not None:
            began = time.perf_counter()
            observe(info["throughput"] - before)
            seconds += time.perf_counter() - began
    return actions, info, seconds


def make_environment(env_id: str, env_kwargs: Mapping[str, Any]) -> SpatialSchedulingEnv:
    """The bare environment, without Gymnasium's wrappers.

    Raises:
        UnknownNameError: no such id.
        DescriptionError: an argument that the environment does not have.
    """
    place = f"{SpatialSchedulingEnv.__module__}:{SpatialSchedulingEnv.__qualname__}"
    ids = [name for name, spec in gymnasium.registry.items() if spec.entry_point == place]
    if env_id not in ids:
        raise UnknownNameError("environment", env_id, ids)
    known = sorted(inspect.signature(SpatialSchedulingEnv).parameters)
    for name in env_kwargs:
        if name not in known:
            raise DescriptionError(
                f"environment argument {name!r}: unknown; known are {', '.join(known)}"
            )
    # Without Gymnasium's wrappers: they check what the tests check, for each of 256 steps.
    return cast(SpatialSchedulingEnv, gymnasium.make(env_id, **env_kwargs).unwrapped)
