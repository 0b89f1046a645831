"""What an agent serves when a share of the best is wanted: return conditioning, held to its word.

An agent that is conditioned on returns is asked for shares of the best schedule's throughput, from
far too little to more than there is. It plays the same episodes for each share. What is wanted and
what is served are then compared by their ranks over all episodes and shares.

Chen et al., Decision Transformer, NeurIPS 2021, figure 4, compare them for each task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_benchmarks.functions.references import LONG_BUDGET, reference_ends
from pmoss_benchmarks.offline.episodes import outcomes_of
from pmoss_benchmarks.offline.training import learned
from pmoss_benchmarks.study.function import Cell, Progress, Row, Rows, Run, silent
from pmoss_benchmarks.study.tables import TableOfRows, interval
from pmoss_datasets import Dataset
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import INTERVAL, pack_actions, paired_difference
from pmoss_datasets.evaluation.statistics import spearman
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.suite import build, load_task
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Float64Array

#: Ranks are compared up to this share: what is far out of reach has one answer, the best.
RANKED = 1.1
#: Repetitions of the bootstrap over episodes.
_BOOTSTRAPS = 1000


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        task: a committed one of spatial scheduling.
        agents: learn from data, and take a wanted throughput by ``set_target``.
        seeds: trainings of each.
        shares: of the best throughput of each episode, wanted one after another.
        tier: of the data.
        episodes: of the evaluation, the same for all shares.
        budget: evaluations of the searches that find the best of an episode.
        changes: fields that override the agents' committed configs.
    """

    AXES: ClassVar = ("agents", "seeds", "shares")

    task: str
    agents: tuple[str, ...] = ("decision-transformer",)
    seeds: int = 1
    shares: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 2.0)
    tier: str = "mixed"
    episodes: int = 10
    budget: int = LONG_BUDGET
    changes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ranked = {share for share in self.shares if share <= RANKED}
        if len(ranked) < 2 or not all(0 < share < 10 for share in self.shares):
            raise DescriptionError(
                f"shares = {list(self.shares)}: must be in (0, 10), and at least two different "
                f"ones of them at most {RANKED}"
            )
        for name in self.agents:
            agent = pmoss_agents.make(name)
            if not isinstance(agent, OfflineAgent) or not hasattr(agent, "set_target"):
                raise DescriptionError(
                    f"agent = {name!r}: must learn from data and take a wanted throughput"
                )


def cells(settings: Settings) -> list[Cell]:
    """Each share that is wanted from each training."""
    return [
        {"agent": name, "seed": seed, "share": share}
        for name in settings.agents
        for seed in range(settings.seeds)
        for share in settings.shares
    ]


def prepare(run: Run, progress: Progress) -> None:
    """Makes the data and the references, and trains the agents that ``run.keep`` lacks."""
    settings = run.settings
    data = _data(run, progress)
    _references(run, progress)
    trainings = [(name, seed) for name in settings.agents for seed in range(settings.seeds)]
    for done, (name, seed) in enumerate(trainings):
        progress("training", done, len(trainings))
        _agent(run, name, seed, data)


def _data(run: Run, progress: Progress = silent) -> Dataset:
    id_ = f"pmoss/{run.settings.task}/{run.settings.tier}-v0"
    return build(id_, run.data, partial(progress, "data"))


def _references(run: Run, progress: Progress = silent) -> dict[int, tuple[float, float]]:
    return reference_ends(run, run.settings.task, budget=run.settings.budget, progress=progress)


def _agent(run: Run, name: str, seed: int, data: Dataset) -> Any:
    return learned(run, name, run.settings.task, [data], {**run.settings.changes, "seed": seed})


def measure(run: Run, cell: Cell) -> Row:
    """Plays each episode for the wanted share.

    Returns:
        ``env_seeds``; ``best``, throughputs of the references; ``served``, both in Mq/s; and
        ``actions``, packed texts. Each has an entry for each episode.
    """
    agent = _agent(run, cell["agent"], cell["seed"], _data(run))
    best = {env_seed: ends[1] for env_seed, ends in _references(run).items()}
    task = load_task(run.settings.task)
    domain = find_domain(task.domain)
    games = []
    with closing(domain.make_env(task.env)) as env:
        check_policy(agent, env)
        for env_seed, throughput in best.items():
            agent.set_target(cell["share"] * throughput)
            games.append(domain.play(env, agent, env_seed))
    return {
        "env_seeds": list(best),
        "best": list(best.values()),
        "served": [game.outcome for game in games],
        "actions": [pack_actions(game.actions) for game in games],
    }


def again(run: Run, row: Row) -> Row:
    """Runs the stored actions again; agents are not asked."""
    task = run.settings.task
    served = outcomes_of(task, load_task(task).env, row["env_seeds"], row["actions"])
    return {"served": served}


def rank_correlation(wanted: Sequence[float], served: Float64Array) -> dict[str, float]:
    """Spearman's correlation of what is wanted and what is served, over all episodes together.

    Args:
        wanted: (n,) shares.
        served: (n, episodes) shares.

    Returns:
        ``value``; ``low`` and ``high``, the ends of the 95 % interval by a bootstrap over episodes;
        and ``of_means``, the same of the means over the episodes. 0 where all that is served is
        equal.

    Raises:
        MissingExtraError: SciPy is not installed.
    """

    def correlation(rows: Float64Array) -> float:
        value = spearman(np.repeat(np.asarray(wanted), rows.shape[1]), rows.ravel())
        return 0.0 if math.isnan(value) else value

    rng = np.random.default_rng(0)
    episodes = served.shape[1]
    again = [
        correlation(served[:, rng.integers(episodes, size=episodes)]) for _ in range(_BOOTSTRAPS)
    ]
    low, high = np.percentile(again, INTERVAL)
    return {
        "value": correlation(served),
        "low": float(low),
        "high": float(high),
        "of_means": correlation(served.mean(axis=1, keepdims=True)),
    }


def _trainings(rows: Rows) -> dict[str, dict[float, Float64Array]]:
    """By training and share that was wanted the shares that were served."""
    several = len({row["seed"] for row in rows}) > 1
    trainings: dict[str, dict[float, Float64Array]] = {}
    for row in rows:
        name = f"`{row['agent']}`" + (f", training {row['seed']}" if several else "")
        served = np.array(row["served"]) / np.array(row["best"])
        trainings.setdefault(name, {})[row["share"]] = served
    return trainings


def _curves(rows: Rows) -> TableOfRows:
    """Mean share of the best that is served for each share that is wanted."""
    shares = sorted({row["share"] for row in rows})
    lines = []
    for name, served in _trainings(rows).items():
        line = [name]
        for share in shares:
            mean = paired_difference(served[share][None]) if share in served else None
            line.append(interval(mean, 2))
        lines.append(line)
    return TableOfRows(["wanted", *(f">{share:g}" for share in shares)], lines)


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """By training ``ranks``, see rank_correlation(), up to RANKED, and ``scatter``.

    The scatter is the standard deviation of what is served for one share, the mean of the shares.
    """
    summary = {}
    for name, served in _trainings(rows).items():
        ranked = {share: values for share, values in served.items() if share <= RANKED}
        values = np.array(list(ranked.values()))
        summary[name] = {
            "ranks": rank_correlation(list(ranked), values),
            "scatter": float(values.std(axis=1).mean()),
        }
    return summary


TABLES = {"default": _curves}
