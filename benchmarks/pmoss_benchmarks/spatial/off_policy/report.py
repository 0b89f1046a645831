"""The table: estimates of policies' values beside the truth that the model knows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from pmoss_benchmarks.report import write_report
from pmoss_benchmarks.spatial.off_policy.estimators import (
    DirectModel,
    NetworkOptions,
    one_step,
    whole_episode,
)
from pmoss_benchmarks.spatial.off_policy.logged import POLICIES, TargetPolicy, log, pair_features
from pmoss_datasets import Behaviour, Dataset, Recipe, collect
from pmoss_env.types import Float64Array

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """What a report depends on.

    Attributes:
        tasks: keyword arguments of the environment, by name.
        episodes: logged per data set, by uniformly random placement, so that every chance is known.
        seeds: of data sets and networks; the errors are means over them.
        rollouts: of each policy from each logged start, which give the truth of whole episodes.
        networks: how they are trained.
    """

    tasks: Mapping[str, Mapping[str, Any]]
    episodes: int = 60
    seeds: tuple[int, ...] = (0, 1, 2)
    rollouts: int = 1
    networks: NetworkOptions = field(default_factory=NetworkOptions)


FULL = Plan(
    {
        "toy, 8 slices": {"machine": "toy", "slices": 8, "interference": "busy_core"},
        "skylake-x-8n, 32 slices": {
            "machine": "skylake-x-8n",
            "slices": 32,
            "interference": "busy_core",
        },
    }
)
QUICK = Plan(
    {"toy, 8 slices": {"machine": "toy", "slices": 8, "interference": "busy_core"}},
    episodes=20,
    seeds=(0, 1),
    rollouts=1,
    networks=NetworkOptions(width=16, updates=100, rounds=8, updates_per_round=20),
)


def run_off_policy(plan: Plan, progress: Progress, out: Path | None = None) -> list[dict[str, Any]]:
    """Collects, estimates and rolls out; returns the rows, and writes the report to ``out``.

    Each row is of one task, policy, horizon ("one step" on the logged states, "whole episode" from
    the logged starts) and estimator. It holds the truth and the mean estimate in Mq/s, and the root
    of the mean square error over the data sets. The error is also given as a share of the distance
    between the policy's value and the behaviour's: 1 is no better than the mean of the data.
    """
    rows: list[dict[str, Any]] = []
    total = len(plan.tasks) * len(plan.seeds)
    done = 0
    with tempfile.TemporaryDirectory() as scratch:
        for task, env in plan.tasks.items():
            found = []
            for seed in plan.seeds:
                progress("estimating", done, total)
                recipe = Recipe(
                    env=env,
                    episodes=plan.episodes,
                    seed=seed,
                    tier="logged",
                    behaviours=(Behaviour("random"),),
                    reference_episodes=0,
                    counterfactuals=True,
                )
                dataset = collect(recipe, Path(scratch) / f"{done}")
                found.append(_of_one_data_set(dataset, plan, seed))
                done += 1
            rows += _rows(task, found)
    progress("estimating", total, total)
    settings = {**asdict(plan), "tasks": {name: dict(env) for name, env in plan.tasks.items()}}
    if out:
        write_report(out, [__name__], settings=settings, rows=rows)
    return rows


# (policy, horizon) -> the truth, the behaviour's own value, and the estimates.
_Found = dict[tuple[str, str], tuple[float, float, dict[str, float]]]


def _of_one_data_set(dataset: Dataset, plan: Plan, seed: int) -> _Found:
    data = log(dataset)
    model = DirectModel(data, plan.networks, seed)
    found: _Found = {}
    for name, policy in POLICIES.items():
        # Every other choice is known as well: the truth is a sum, no estimate.
        exact = float((policy(data.features) * data.truth).sum(axis=2).mean())
        own = float(data.rewards.mean())
        found[name, "one step"] = (exact, own, one_step(data, policy, model))
        returns, guessed = _rollouts(dataset, policy, plan.rollouts, seed, model)
        estimates = whole_episode(data, policy, plan.networks, seed)
        estimates["direct model, rolled out"] = float(guessed.mean())
        own = float(data.rewards.sum(axis=1).mean())
        found[name, "whole episode"] = (float(returns.mean()), own, estimates)
    return found


def _rollouts(
    dataset: Dataset, policy: TargetPolicy, repeats: int, seed: int, model: DirectModel
) -> tuple[Float64Array, Float64Array]:
    """Returns of the policy from the logged starts, and what the direct model says of each.

    The direct model may use that where a slice goes is known beforehand: it lacks the rewards only.
    """
    env: Any = gymnasium.make(
        "pmoss/SpatialScheduling-v0",
        **{**dataset.metadata.env_kwargs, "reward": "improvement"},
    )
    rng = np.random.default_rng([seed, 1])
    tiles = dataset.machine.tile_of_core[dataset.machine.workers]
    paid, guessed = [], []
    for episode in dataset:
        for _ in range(repeats):
            observation, _ = env.reset(seed=episode.seed)
            total, guess, ended = 0.0, 0.0, False
            while not ended:
                counters = observation["slice_view"].size
                features = pair_features(
                    observation["machine_view"].reshape(-1, counters)[None, tiles],
                    observation["incumbent_view"].reshape(-1, counters)[None, tiles],
                    observation["slice_view"][None],
                    observation["slice"],
                )
                worker = int(rng.choice(tiles.size, p=policy(features)[0]))
                guess += float(model.predict(features)[0, worker])
                observation, reward, ended, _, _ = env.step(int(tiles[worker]))
                total += float(reward)
            paid.append(total)
            guessed.append(guess)
    env.close()
    return np.array(paid), np.array(guessed)


def _rows(task: str, found: list[_Found]) -> list[dict[str, Any]]:
    rows = []
    for key in found[0]:
        policy, horizon = key
        truth = np.array([of_seed[key][0] for of_seed in found])
        own = np.array([of_seed[key][1] for of_seed in found])
        distance = float(np.sqrt(np.mean((truth - own) ** 2)))
        for estimator in found[0][key][2]:
            guesses = np.array([of_seed[key][2][estimator] for of_seed in found])
            error = float(np.sqrt(np.mean((guesses - truth) ** 2)))
            rows.append(
                {
                    "task": task,
                    "policy": policy,
                    "horizon": horizon,
                    "estimator": estimator,
                    "behaviour": float(own.mean()),
                    "truth": float(truth.mean()),
                    "estimate": float(guesses.mean()),
                    "error": error,
                    "relative_error": error / distance if distance else None,
                }
            )
    return rows


def summarise(rows: list[dict[str, Any]]) -> list[tuple[str, str, str, float, float]]:
    """(task, horizon, estimator, median and greatest relative error over the policies)."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row["relative_error"] is not None:
            key = (row["task"], row["horizon"], row["estimator"])
            groups.setdefault(key, []).append(row["relative_error"])
    return [
        (*key, float(np.median(errors)), float(np.max(errors))) for key, errors in groups.items()
    ]
