"""Playing episodes with policies, and scoring their outcomes.

Every policy meets the same episodes. A score is normalised per episode: 0 is the mean of random
legal schedules, 100 the best schedule that local search finds with the stated budget.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, cast

import numpy as np

from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation.results import (
    ASKED,
    NARROW,
    EpisodeResult,
    Evaluation,
    check_row,
)
from pmoss_datasets.fairness import check_policy, is_ours
from pmoss_datasets.interfaces import Rollout, score_of
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.recipes import MOST_EVALUATIONS
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.result_files import ResultFile

DEFAULT_ENV = "pmoss/SpatialScheduling-v0"
#: The fields by which rows of an interrupted evaluation are known.
KEY = ("policy", "seed", "episode")

#: progress(episodes done, episodes in all) after every episode.
Progress = Callable[[int, int], None]


def episode_seed(seed: int, episode: int, bits: int = NARROW) -> int:
    """The environment's seed of an episode: the same for every policy.

    Args:
        bits: of the result, NARROW or WIDE. There are too many wide ones to try them all.
    """
    if bits == NARROW:
        return int(np.random.SeedSequence((seed, episode)).generate_state(1)[0])
    digest = hashlib.sha256(f"{seed}\0{episode}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 64 - bits


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
    kept: ResultFile | None = None,
    seed_bits: int = NARROW,
) -> Evaluation:
    """Runs every policy through the same episodes; ``fairness`` says what is kept from policies.

    Args:
        env_kwargs: of the environment, plain JSON.
        policies: by name: a policy, or a function that gives the policy of a seed (an agent
            trained with it). All are asked for, and asked to check the environment, before the
            first episode.
        seeds: whole numbers from 0, each once; at least five for a table.
        episodes_per_seed: each with its own workload instance, co-tenants and incumbent.
        search_budget: model evaluations of the search that defines a score of 100; it asks the
            analytic model where the environment's backend cannot be asked after every move.
        random_schedules: how many define a score of 0.
        progress: called with (episodes done, episodes in all) after each.
        references: throughputs of score 0 and 100 by the environment's seed, of earlier calls with
            the same environment, budget and number of schedules; new ones are added.
        kept: rows of a call that was interrupted, by KEY; each new one is added at once. Our rules
            and searches go on behind theirs; all others play again, on known references.
        seed_bits: of the environment's seed of each episode; see episode_seed().

    Raises:
        UnsupportedError: a machine that cannot be searched because it has no model.
        DescriptionError: no or too many seeds, episodes, schedules or policies; one that is none,
            or a seed twice; or an argument that the environment does not have.
        DatasetError: a kept row is none of an evaluation.
        UnknownNameError: no such environment.
        PmossError: what a policy's check_env() raises, such as CheckpointError.
    """
    seeds = _checked_seeds(seeds)
    _check_policies(policies)
    total = len(policies) * len(seeds) * episodes_per_seed
    _check_counts(
        {
            "seeds": len(seeds),
            "episodes_per_seed": episodes_per_seed,
            "random_schedules": random_schedules,
            "policies": len(policies),
            "episodes of all policies": total,
        }
    )
    _check_counts({"search_budget": search_budget}, 0)
    domain = domain_of_env(env_id)
    env = domain.make_env(env_kwargs, env_id)
    judge = domain.judge(env)
    scale = {} if references is None else references
    file = ResultFile(None, {}, KEY) if kept is None else kept
    rows: list[EpisodeResult] = []
    misplaced: Counter[str] = Counter()
    try:
        players_of_seeds = [
            {name: _policy_of_seed(policy, seed) for name, policy in policies.items()}
            for seed in seeds
        ]
        for policy in {id(p): p for players in players_of_seeds for p in players.values()}.values():
            check_policy(policy, env)
        for seed, players in zip(seeds, players_of_seeds, strict=True):
            for episode in range(episodes_per_seed):
                env_seed = episode_seed(seed, episode, seed_bits)
                kept_rows: dict[str, dict[str, Any]] = {}
                for name, policy in players.items():
                    if (row := file.get(name, seed, episode)) is not None:
                        _check_kept(row, file)
                        scale[env_seed] = row["random_throughput"], row["search_throughput"]
                        # Agents may remember episodes, and code of others may have changed.
                        if isinstance(policy, SchedulePolicy) and is_ours(policy):
                            kept_rows[name] = row
                if len(kept_rows) < len(players):
                    env.reset(seed=env_seed)
                    judge.begin()
                    if env_seed not in scale:
                        scale[env_seed] = judge.reference(env_seed, search_budget, random_schedules)
                for name, policy in players.items():
                    row = kept_rows.get(name)
                    if row is None:
                        played = domain.play(env, policy, env_seed, judge)
                        score = score_of(judge.outcome(played), *scale[env_seed])
                        values = _row(name, seed, episode, env_seed, scale[env_seed], played, score)
                        row = file.append({**values, "misplaced": bool(played.misplaced)})
                    misplaced[name] += row["misplaced"]
                    rows.append(_result(row))
                    if progress is not None:
                        progress(len(rows), total)
    finally:
        env.close()
        judge.close()
    settings = (env_id, dict(env_kwargs), search_budget, random_schedules)
    counts = {name: count for name, count in misplaced.items() if count}
    return Evaluation(*settings, rows, counts, seed_bits)


def _check_policies(policies: Mapping[str, Any]) -> None:
    for name, policy in policies.items():
        if not isinstance(policy, Policy) and not callable(policy):
            raise DescriptionError(
                f"policy {name!r} = {policy!r}: must be a policy, such as "
                "SchedulePolicy('best-fit'), or a function of a seed"
            )


def _checked_seeds(seeds: Sequence[int]) -> list[int]:
    """Seeds as plain numbers, of which NumPy's are none; DescriptionError."""
    checked: dict[int, None] = {}
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise DescriptionError(f"seeds: {seed!r}: must be a whole number from 0")
        if seed in checked:
            raise DescriptionError(f"seeds: {seed} is there twice: it would play the same episodes")
        checked[int(seed)] = None
    return list(checked)


def _check_counts(counts: Mapping[str, int], least: int = 1) -> None:
    for name, count in counts.items():
        if not least <= count <= MOST_EVALUATIONS:
            raise DescriptionError(
                f"{name} = {count}: must be from {least} to {MOST_EVALUATIONS:,}"
            )


def _row(
    policy: str,
    seed: int,
    episode: int,
    env_seed: int,
    reference: tuple[float, float],
    played: Rollout,
    score: float | None,
) -> dict[str, Any]:
    """The fields of an EpisodeResult."""
    low, high = reference
    return {
        "policy": policy,
        "seed": seed,
        "episode": episode,
        "env_seed": env_seed,
        "incumbent_throughput": played.start,
        "throughput": played.outcome,
        "score": score,
        "random_throughput": low,
        "search_throughput": high,
        "illegal_actions": played.illegal_actions,
        "actions": list(played.actions),
        "seconds_per_decision": played.seconds / max(len(played.actions), 1),
        **{name: count for name in ASKED if (count := getattr(played, name)) is not None},
    }


def _check_kept(row: Mapping[str, Any], file: ResultFile) -> None:
    """Refuses a row whose checksum is right and whose values are not: DatasetError."""
    values = {name: value for name, value in row.items() if name != "misplaced"}
    where = f"{file.path}: remove it and begin again: {row['policy']}: "
    check_row(values, where)
    if not isinstance(row.get("misplaced"), bool):
        raise DatasetError(f"{where}misplaced: must be true or false")


def _result(row: Mapping[str, Any]) -> EpisodeResult:
    """The result that a row keeps."""
    values = {name: value for name, value in row.items() if name != "misplaced"}
    return EpisodeResult(**{**values, "actions": tuple(values["actions"])})


def _policy_of_seed(policy: Policy | Callable[[int], Policy], seed: int) -> Policy:
    # A class has the methods of its instances, but makes a policy instead of being one.
    if isinstance(policy, Policy) and not isinstance(policy, type):
        return policy
    return cast(Callable[[int], Policy], policy)(seed)
