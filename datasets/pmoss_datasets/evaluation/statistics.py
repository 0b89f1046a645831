"""Means over seeds and episodes, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pmoss_datasets.evaluation.results import ASKED, EpisodeResult
from pmoss_env.extras import require
from pmoss_env.types import Float64Array

#: Repetitions of the bootstrap, and the interval it gives.
BOOTSTRAPS = 10_000
INTERVAL = (2.5, 97.5)
#: Fewest trainings, or episodes where nothing was trained, of which a mean has an interval.
LEAST = 5
#: Of the resampling, so that a table can be made again to the digit.
_SEED = 0


@dataclass(frozen=True)
class Summary:
    """One policy over all seeds.

    Attributes:
        policy: its name.
        seeds: how many, n.
        episodes: how many in all.
        score: mean of aggregate(), over the episodes that have a score; None where none has.
        score_low: lower end of the 95 % interval, see aggregate(); None if there is none.
        score_high: its upper end.
        score_std: standard deviation over seeds; None below two seeds.
        throughput: mean in the same way, Mq/s.
        throughput_low: lower end of its interval; None if there is none.
        throughput_high: its upper end.
        illegal_actions: in all episodes together.
        seconds_per_decision: mean wall time of the policy.
    """

    policy: str
    seeds: int
    episodes: int
    score: float | None
    score_low: float | None
    score_high: float | None
    score_std: float | None
    throughput: float
    throughput_low: float | None
    throughput_high: float | None
    illegal_actions: int
    seconds_per_decision: float


def aggregate(rows: Iterable[EpisodeResult], *, trainings: bool = True) -> list[Summary]:
    """Summarises each policy, in order of appearance.

    Args:
        rows: of evaluate() or read_results().
        trainings: whether a policy may be another one for each seed, trained with it. Then means
            are over seeds of the means of their episodes, and the intervals hold the chance of
            both, see bootstrap_interval(). Else all episodes of a policy are alike: means are over
            all of them, and the intervals are Student's. With fewer than LEAST seeds, or episodes,
            there is none.

    Raises:
        MissingExtraError: scipy is not installed, which Student's intervals need.
    """
    interval = bootstrap_interval if trainings else _interval_of_episodes
    of_policy: dict[str, list[EpisodeResult]] = {}
    for row in rows:
        of_policy.setdefault(row.policy, []).append(row)
    summaries = []
    for policy, mine in of_policy.items():
        score_groups = _by_seed([(r.seed, r.score) for r in mine if r.score is not None])
        throughput_groups = _by_seed([(r.seed, r.throughput) for r in mine])
        score_low, score_high = interval(score_groups)
        low, high = interval(throughput_groups)
        scores = np.array([group.mean() for group in score_groups])
        summaries.append(
            Summary(
                policy=policy,
                seeds=len(throughput_groups),
                episodes=len(mine),
                score=_mean(score_groups, trainings) if score_groups else None,
                score_low=score_low,
                score_high=score_high,
                score_std=float(scores.std(ddof=1)) if scores.size > 1 else None,
                throughput=_mean(throughput_groups, trainings),
                throughput_low=low,
                throughput_high=high,
                illegal_actions=sum(r.illegal_actions for r in mine),
                seconds_per_decision=float(np.mean([r.seconds_per_decision for r in mine])),
            )
        )
    return summaries


def mean_asked(rows: Iterable[EpisodeResult]) -> dict[str, dict[str, float]]:
    """Measurements and evaluations of policies per episode, before they decided.

    Returns:
        ``evaluations`` and ``measurements``, each by policy. A policy that may not ask is in
        neither, and what no policy asked is left out.
    """
    counts: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        for name in ASKED:
            if (count := getattr(row, name)) is not None:
                counts.setdefault(name, {}).setdefault(row.policy, []).append(count)
    return {
        name: {policy: float(np.mean(asked)) for policy, asked in of_policy.items()}
        for name, of_policy in counts.items()
    }


def bootstrap_interval(
    groups: Sequence[Float64Array],
) -> tuple[float, float] | tuple[None, None]:
    """The 95 % interval of the mean over seeds of the mean over episodes: a two-level bootstrap.

    Each repetition draws as many seeds as there are, with replacement, then within each drawn seed
    as many episodes as it has; the interval is the 2.5th to the 97.5th percentile of the means.

    To draw seeds alone covers too little: the variance of n seed means comes out a factor
    (n - 1) / n too small. The second level makes up for it only as far as episodes differ.
    How often the interval covers the true mean was simulated with five seeds of four normal
    episodes: in about 97 % of cases where seeds do not differ. It is 94 % where seeds spread half
    as far as the episodes of one seed, and 87 % where twice as far. It is 85 % where only seeds
    differ. So with five agents that differ much, read it as an interval of less than 95 %.

    Args:
        groups: the values of the episodes of each seed; none of them empty.

    Returns:
        The lower and the upper end; None below LEAST seeds.
    """
    count = len(groups)
    if count < LEAST:
        return None, None
    rng = np.random.default_rng(_SEED)
    picks = rng.integers(count, size=(BOOTSTRAPS, count))
    means = np.empty(picks.shape)
    for number, values in enumerate(groups):
        drawn = picks == number
        episodes = rng.integers(values.size, size=(np.count_nonzero(drawn), values.size))
        means[drawn] = values[episodes].mean(axis=1)
    low, high = np.percentile(means.mean(axis=1), INTERVAL)
    return float(low), float(high)


def _interval_of_episodes(
    groups: Sequence[Float64Array],
) -> tuple[float, float] | tuple[None, None]:
    values = np.concatenate(groups) if groups else np.zeros(0)
    if values.size < LEAST:
        return None, None
    mean = student(values)
    assert mean.low is not None and mean.high is not None
    return mean.low, mean.high


def with_interval(mean: float | None, low: float | None, high: float | None) -> str:
    """A mean with its interval, as tables show it; empty without a mean."""
    if mean is None:
        return ""
    return f"{mean:.1f}" if low is None else f"{mean:.1f} [{low:.1f}, {high:.1f}]"


@dataclass(frozen=True)
class Difference:
    """The difference of two policies in the same episodes.

    Attributes:
        value: mean over training seeds and episodes.
        low: lower end of the 95 % interval; None with a single episode.
        high: its upper end.
    """

    value: float
    low: float | None
    high: float | None


def paired_difference(differences: Float64Array) -> Difference:
    """The mean of paired differences, with its 95 % interval.

    All training seeds met the same episodes. So each repetition of a crossed bootstrap draws
    episodes for all seeds together, and seeds for all episodes together. Of one seed the interval
    is Student's: percentiles of few episodes cover less than 95 %.

    Args:
        differences: (seeds, episodes), of the outcomes of two policies in the same episode.
    """
    value = float(differences.mean())
    seeds, episodes = differences.shape
    if seeds == 1:
        return student(differences[0])
    if episodes < 2:
        return Difference(value, None, None)
    of_seeds = _drawn_weights(episodes) @ differences.T
    rows = np.random.default_rng((_SEED, 1)).integers(seeds, size=(BOOTSTRAPS, seeds))
    means = np.take_along_axis(of_seeds, rows, axis=1).mean(axis=1)
    low, high = np.percentile(means, INTERVAL)
    return Difference(value, float(low), float(high))


def student(values: Float64Array) -> Difference:
    """The mean of some values with Student's 95 % interval; without one of fewer than two.

    Args:
        values: (n,), drawn independently.

    Raises:
        MissingExtraError: scipy is not installed.
    """
    value = float(values.mean())
    if values.size < 2:
        return Difference(value, None, None)
    require("scipy")
    from scipy.stats import t

    half = float(t.ppf(INTERVAL[1] / 100, values.size - 1) * values.std(ddof=1)) / values.size**0.5
    return Difference(value, value - half, value + half)


def ratio_of_means(above: Float64Array, below: Float64Array) -> Difference:
    """The mean of one value over that of another of the same episodes, with its 95 % interval.

    Each repetition of the bootstrap draws episodes, of both values together.

    Args:
        above: (episodes,).
        below: (episodes,), of a mean that is not 0.
    """
    value = float(above.mean() / below.mean())
    if above.size < 2:
        return Difference(value, None, None)
    # Not of_means(), whose last bits differ: stored results hold these.
    weights = _drawn_weights(above.size)
    low, high = np.percentile((weights @ above) / (weights @ below), INTERVAL)
    return Difference(value, float(low), float(high))


def of_means(values: Float64Array, statistic: Callable[[Float64Array], Float64Array]) -> Difference:
    """A statistic of the means of several values of the same episodes, with its 95 % interval.

    Each repetition of the bootstrap draws episodes, of all values together.

    Args:
        values: (values, episodes).
        statistic: (values, ...) means to (...).
    """
    value = float(statistic(values.mean(axis=1)))
    if values.shape[1] < 2:
        return Difference(value, None, None)
    drawn = values @ _drawn_weights(values.shape[1]).T
    low, high = np.percentile(statistic(drawn), INTERVAL)
    return Difference(value, float(low), float(high))


@lru_cache(maxsize=8)
def _drawn_weights(count: int) -> Float64Array:
    """(BOOTSTRAPS, count) the share of each of some things in each repetition's draws."""
    drawn = np.random.default_rng(_SEED).integers(count, size=(BOOTSTRAPS, count))
    cells = drawn + count * np.arange(BOOTSTRAPS)[:, None]
    draws = np.bincount(cells.ravel(), minlength=BOOTSTRAPS * count)
    return draws.reshape(BOOTSTRAPS, count) / count


def _mean(groups: Sequence[Float64Array], trainings: bool) -> float:
    weights = None if trainings else [group.size for group in groups]
    return float(np.average([group.mean() for group in groups], weights=weights))


def _by_seed(pairs: list[tuple[int, float]]) -> list[Float64Array]:
    of_seed: dict[int, list[float]] = {}
    for seed, value in pairs:
        of_seed.setdefault(seed, []).append(value)
    return [np.array(values, dtype=np.float64) for values in of_seed.values()]


def spearman(first: Float64Array, second: Float64Array) -> float:
    """Spearman's rank correlation, equal values sharing a rank; NaN where one does not vary.

    Args:
        first: (n,). Values that agree to nine digits are equal.
        second: (n,), likewise.
    """
    require("scipy")
    from scipy.stats import rankdata

    rounded = [[float(f"{value:.9g}") for value in values] for values in (first, second)]
    if any(np.ptp(values) == 0.0 for values in rounded):
        return math.nan
    # Not spearmanr(), whose last bits differ from those of stored results.
    return float(np.corrcoef([rankdata(values) for values in rounded])[0, 1])
