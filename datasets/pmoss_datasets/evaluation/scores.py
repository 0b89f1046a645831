"""Many runs in few numbers: mean, median and interquartile mean, with bootstrap intervals.

Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice, NeurIPS 2021.
A run is one training seed on one task; its score is the mean over its episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from pmoss_datasets.evaluation.results import EpisodeResult
from pmoss_datasets.evaluation.statistics import INTERVAL, Difference
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Float64Array

#: Repetitions of the bootstrap.
REPETITIONS = 2000
#: (..., tasks, runs) to (...): a statistic of the runs of some tasks.
Statistic = Callable[[Float64Array], Float64Array]


def mean(runs: Float64Array) -> Float64Array:
    """(..., tasks, runs) to (...): the mean over all runs."""
    return np.asarray(runs.mean(axis=(-2, -1)))


def median(runs: Float64Array) -> Float64Array:
    """(..., tasks, runs) to (...): the median over the tasks of the mean over the runs."""
    return np.asarray(np.median(runs.mean(axis=-1), axis=-1))


def interquartile_mean(runs: Float64Array) -> Float64Array:
    """(..., tasks, runs) to (...): the mean of the middle half of all runs.

    Of n runs, the n // 4 lowest and the n // 4 highest are left out.
    """
    values = np.sort(runs.reshape(*runs.shape[:-2], -1), axis=-1)
    cut = values.shape[-1] // 4
    return np.asarray(values[..., cut : values.shape[-1] - cut].mean(axis=-1))


STATISTICS: Mapping[str, Statistic] = {
    "iqm": interquartile_mean,
    "median": median,
    "mean": mean,
}


def stratified_bootstrap(runs: Float64Array, statistic: Statistic) -> Difference:
    """A statistic with the 95 % percentile interval of a bootstrap stratified by task.

    Each repetition draws, for every task by itself, as many of its runs as there are, with
    replacement: what differs between tasks is no chance, what differs between runs is.

    Args:
        runs: (tasks, runs) scores.

    Raises:
        DescriptionError: no runs, or scores that are not finite.
    """
    if runs.ndim != 2 or runs.size == 0 or not np.isfinite(runs).all():
        raise DescriptionError(f"runs: shape {runs.shape}: must be finite scores (tasks, runs)")
    tasks, count = runs.shape
    value = float(statistic(runs))
    if count < 2:
        return Difference(value, None, None)
    picks = np.random.default_rng(0).integers(count, size=(REPETITIONS, tasks, count))
    drawn = np.take_along_axis(np.broadcast_to(runs, picks.shape), picks, axis=-1)
    low, high = np.percentile(statistic(drawn), INTERVAL)
    return Difference(value, float(low), float(high))


def two_level_bootstrap(tasks: Sequence[Float64Array], statistic: Statistic) -> Difference:
    """A statistic with the 95 % percentile interval of a bootstrap over seeds and episodes.

    Each repetition draws, for every task by itself, as many of its seeds as there are, and as many
    of its episodes, for all seeds together: they play the same ones, and a hard episode is hard for
    all. What does not learn has one seed: its interval is one of episodes.

    How often the interval covers the true mean was simulated with five seeds of 20 normal episodes,
    whose scores correlate by 0.45 between seeds. It is 93 to 95 % of cases where seeds differ up to
    half as far as episodes, and 86 % where they differ as far. With ten seeds it is 94 to 96 %.

    Args:
        tasks: (seeds, episodes) scores of each; all with as many seeds.
        statistic: see STATISTICS; of the means over episodes.

    Raises:
        DescriptionError: no scores, or tasks of different numbers of seeds.
    """
    if not tasks or len({scores.shape[0] for scores in tasks}) > 1 or not tasks[0].size:
        shapes = ", ".join(str(scores.shape) for scores in tasks) or "none"
        raise DescriptionError(f"tasks: shapes {shapes}: must be (seeds, episodes), alike in seeds")
    value = float(statistic(np.array([scores.mean(axis=1) for scores in tasks])))
    rng = np.random.default_rng(0)
    drawn = []
    for scores in tasks:
        seeds, episodes = scores.shape
        rows = rng.integers(seeds, size=(REPETITIONS, seeds, 1))
        columns = rng.integers(episodes, size=(REPETITIONS, 1, episodes))
        drawn.append(scores[rows, columns].mean(axis=2))
    low, high = np.percentile(statistic(np.stack(drawn, axis=1)), INTERVAL)
    return Difference(value, float(low), float(high))


def probability_of_improvement(
    mine: Sequence[Float64Array], theirs: Sequence[Float64Array]
) -> float:
    """The mean over tasks of how often a run of one policy is above one of another; ties half.

    Args:
        mine: (runs,) scores for each task.
        theirs: likewise, of the same tasks, perhaps in other numbers.
    """
    shares = []
    for ours, others in zip(mine, theirs, strict=True):
        ahead = np.subtract.outer(ours, others)
        shares.append((ahead > 0).mean() + (ahead == 0).mean() / 2)
    return float(np.mean(shares))


def score_profile(tasks: Sequence[Float64Array], levels: Float64Array) -> Float64Array:
    """(levels,) the mean over tasks of the share of runs above each level.

    Args:
        tasks: (runs,) scores of each.
        levels: (levels,) scores.
    """
    shares = [(runs[:, None] > levels).mean(axis=0) for runs in tasks]
    return np.asarray(np.mean(shares, axis=0))


def runs_of(rows: Mapping[str, Iterable[EpisodeResult]]) -> dict[str, Float64Array]:
    """For each policy the (tasks, runs) scores: means over the episodes of a task and seed.

    Policies that did not play every episode of every task are left out: their statistics would be
    of other tasks than those of the others. So are seeds that did not play every task.

    Args:
        rows: of each task.
    """
    cells: dict[str, dict[str, dict[int, list[float]]]] = {}
    played: dict[str, set[tuple[str, int]]] = {}
    for task, of_task in rows.items():
        for row in of_task:
            if row.score is not None:
                seeds = cells.setdefault(row.policy, {}).setdefault(task, {})
                seeds.setdefault(row.seed, []).append(row.score)
                played.setdefault(row.policy, set()).add((task, row.env_seed))
    everything = set().union(*played.values())
    runs = {
        policy: _matrix([tasks[task] for task in rows])
        for policy, tasks in cells.items()
        if played[policy] == everything
    }
    return {policy: scores for policy, scores in runs.items() if scores.size}


def _matrix(tasks: Sequence[Mapping[int, list[float]]]) -> Float64Array:
    common = sorted(set.intersection(*map(set, tasks)))
    return np.array([[np.mean(seeds[seed]) for seed in common] for seeds in tasks])
