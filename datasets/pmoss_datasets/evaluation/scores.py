"""Many runs in few numbers: mean and interquartile mean, with bootstrap intervals.

Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice, NeurIPS 2021.
A run is one training seed on one task; its score is the mean over its episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pmoss_datasets.evaluation.statistics import INTERVAL, Difference, student
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Float64Array

#: Repetitions of the bootstrap.
REPETITIONS = 2000
#: (..., runs) scores of each task, perhaps of other numbers of runs, to (...).
Statistic = Callable[[Sequence[Float64Array]], Float64Array]


def mean(tasks: Sequence[Float64Array]) -> Float64Array:
    """(..., runs) of each task to (...): the mean over tasks of the mean over all runs of each."""
    return np.asarray(np.mean([runs.mean(axis=-1) for runs in tasks], axis=0))


def interquartile_mean(tasks: Sequence[Float64Array]) -> Float64Array:
    """(..., runs) of each task to (...): the mean of the middle half of all runs.

    Of n runs, the n // 4 lowest and the n // 4 highest are left out.
    """
    values = np.sort(np.concatenate(tasks, axis=-1), axis=-1)
    cut = values.shape[-1] // 4
    return np.asarray(values[..., cut : values.shape[-1] - cut].mean(axis=-1))


STATISTICS: Mapping[str, Statistic] = {"iqm": interquartile_mean, "mean": mean}


def _drawn_runs(
    tasks: Sequence[Float64Array], seed: int, common: bool = True
) -> list[Float64Array]:
    """(REPETITIONS, seeds) of each task: means over drawn episodes, of drawn training seeds.

    Args:
        tasks: (seeds, episodes) scores of each.
        seed: of the draw of training seeds. That of episodes is the same for all policies.
        common: see two_level_bootstrap().
    """
    rng = np.random.default_rng((0, seed))
    drawn = []
    for scores in tasks:
        seeds, episodes = scores.shape
        rows = rng.integers(seeds, size=(REPETITIONS, seeds, 1))
        of_episodes = np.random.default_rng((1, episodes)) if common else rng
        columns = of_episodes.integers(
            episodes, size=(REPETITIONS, 1 if common else seeds, episodes)
        )
        drawn.append(scores[rows, columns].mean(axis=2))
    return drawn


def _estimate(value: float, drawn: Float64Array) -> Difference:
    low, high = np.percentile(drawn, INTERVAL)
    return Difference(value, float(low), float(high))


def _check(tasks: Sequence[Float64Array]) -> None:
    if not tasks or not all(t.ndim == 2 and t.size and np.isfinite(t).all() for t in tasks):
        shapes = ", ".join(str(scores.shape) for scores in tasks) or "none"
        raise DescriptionError(f"tasks: shapes {shapes}: must be finite scores (seeds, episodes)")


def _one_seed(tasks: Sequence[Float64Array]) -> Float64Array | None:
    """(episodes,) means over tasks of one seed's scores; None of more seeds or other episodes."""
    if {scores.shape for scores in tasks} != {(1, tasks[0].shape[1])}:
        return None
    return np.asarray(np.mean([scores[0] for scores in tasks], axis=0))


def two_level_bootstrap(
    tasks: Sequence[Float64Array], statistic: Statistic, common: bool = True
) -> Difference:
    """A statistic with the 95 % percentile interval of a bootstrap over seeds and episodes.

    Each repetition draws, for every task by itself, as many of its training seeds as there are.
    It draws as many episodes as there are once for all: all seeds play the same ones, and an
    episode of the same number has the same co-tenants on similar tasks. What does not learn has one
    seed: its interval is one of episodes. That of its mean is Student's, since percentiles of few
    episodes are too narrow.

    How often the interval covers the true mean was simulated with five seeds of 20 normal episodes,
    whose scores correlate by 0.45 between seeds. It is 93 to 95 % of cases where seeds differ up to
    half as far as episodes, and 86 % where they differ as far. With ten seeds it is 94 to 96 %.

    Args:
        tasks: (seeds, episodes) scores of each.
        statistic: see STATISTICS; of the means over episodes.
        common: whether all seeds and tasks have the same episodes; else each draws its own.

    Raises:
        DescriptionError: no scores, or some that are not finite.
    """
    _check(tasks)
    if common and statistic is mean and (alone := _one_seed(tasks)) is not None:
        return student(alone)
    value = float(statistic([scores.mean(axis=1) for scores in tasks]))
    return _estimate(value, statistic(_drawn_runs(tasks, 0, common)))


def compare(
    mine: Sequence[Float64Array], theirs: Sequence[Float64Array]
) -> tuple[Difference, Difference]:
    """The difference of the means of two policies, and the probability of improvement.

    That is the mean over tasks of how often a run of one is above one of the other; ties count
    half. Both have the 95 % intervals of two_level_bootstrap(), whose draws of episodes are common.

    Args:
        mine: (seeds, episodes) scores of each task.
        theirs: likewise, of the same tasks, perhaps of another number of seeds.

    Raises:
        DescriptionError: no scores, or some that are not finite.
    """
    _check(mine)
    _check(theirs)
    both = [[scores.mean(axis=1) for scores in tasks] for tasks in (mine, theirs)]
    drawn = _drawn_runs(mine, 0), _drawn_runs(theirs, 1)
    difference = _estimate(float(mean(both[0]) - mean(both[1])), mean(drawn[0]) - mean(drawn[1]))
    alone = _one_seed(mine), _one_seed(theirs)
    if alone[0] is not None and alone[1] is not None and alone[0].shape == alone[1].shape:
        difference = student(alone[0] - alone[1])
    share = float(probability_of_improvement(*both))
    return difference, _estimate(share, probability_of_improvement(*drawn))


def probability_of_improvement(
    mine: Sequence[Float64Array], theirs: Sequence[Float64Array]
) -> Float64Array:
    """The mean over tasks of how often a run of one policy is above one of another; ties half.

    Args:
        mine: (..., runs) scores for each task.
        theirs: likewise, of the same tasks, perhaps in other numbers.
    """
    shares = []
    for ours, others in zip(mine, theirs, strict=True):
        ahead = np.sign(ours[..., :, None] - others[..., None, :])
        shares.append((1 + ahead.mean(axis=(-2, -1))) / 2)
    return np.asarray(np.mean(shares, axis=0))


def score_profile(tasks: Sequence[Float64Array], levels: Float64Array) -> Float64Array:
    """(levels,) the mean over tasks of the share of runs above each level.

    Args:
        tasks: (runs,) scores of each.
        levels: (levels,) scores.
    """
    shares = [(runs[:, None] > levels).mean(axis=0) for runs in tasks]
    return np.asarray(np.mean(shares, axis=0))
