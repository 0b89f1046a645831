"""Whether a change of the schedule is kept: a test on pairs of rounds, one under each schedule.

Which of the two comes first in a pair is drawn. So, where a change does nothing, each pair speaks
for either side with the same chance, whatever the noise of the host looks like. The test is
Wilcoxon's signed-rank test, whose chance is counted exactly. It looks at most three times. The
chances that the looks may spend add up to less than 1 %.

Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1, 1945.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

#: After so many pairs: the chance that a null change is kept there.
LOOKS = {8: 0.0045, 12: 0.0025, 16: 0.002}
MOST_PAIRS = max(LOOKS)
#: Of normal noise, the last look keeps half of the changes whose mean gain is so many times the
#: median distance from the median: 0.87 of its standard deviation over 0.63 of it, by simulation.
_HALF_FOUND = 1.39
#: After these a change that does not even look better is given up.
_DOUBTS = (4, 8, 12)


def gain(before: float, after: float) -> float:
    """What a pair says, from -1 to 1: the difference of its throughputs over their sum."""
    total = before + after
    return (after - before) / total if total > 0 else 0.0


def judge(gains: Sequence[float]) -> bool | None:
    """Whether a change is kept; to be asked after each of its pairs.

    Args:
        gains: of all pairs so far; see gain().

    Returns:
        None while it is open.
    """
    pairs = len(gains)
    if pairs not in LOOKS and pairs not in _DOUBTS:
        return None
    rank_sum, chance = signed_rank(gains)
    if chance <= LOOKS.get(pairs, 0.0):
        return True
    if pairs >= MOST_PAIRS or (pairs in _DOUBTS and rank_sum <= 0):
        return False
    return None


def smallest_gain(trials: Iterable[Sequence[float]]) -> float | None:
    """The relative gain that half of the longest trials would find in this noise.

    Args:
        trials: gains of the pairs of each, see gain(). The noise is their median distance from
            the median of their trial.

    Returns:
        None where no trial has the pairs of a first doubt.
    """
    distances: list[float] = []
    for gains in trials:
        if len(gains) >= min(_DOUBTS):
            distances += np.abs(np.array(gains) - np.median(gains)).tolist()
    if not distances:
        return None
    shift = _HALF_FOUND * float(np.median(distances))
    # A gain is a difference over a sum.
    return 2 * shift / (1 - shift) if shift < 1 else float("inf")


def signed_rank(gains: Sequence[float]) -> tuple[float, float]:
    """The signed-rank sum, and the chance of one as large where nothing has changed.

    Args:
        gains: of the pairs; those of 0 say nothing. Equal ones share their ranks.
    """
    values = np.array([value for value in gains if value], dtype=np.float64)
    if not values.size:
        return 0.0, 1.0
    sizes = np.abs(values)
    # Twice the mean rank of equal ones is a whole number.
    ranks = np.array([2 * np.sum(sizes < s) + np.sum(sizes == s) + 1 for s in sizes], dtype=int)
    positive = int(ranks[values > 0].sum())
    ways = np.zeros(int(ranks.sum()) + 1)
    ways[0] = 1.0
    for rank in ranks:
        with_it = np.zeros_like(ways)
        with_it[rank:] = ways[: ways.size - rank]
        ways = (ways + with_it) / 2
    total = positive - (int(ranks.sum()) - positive)
    return total / 2, float(ways[positive:].sum())
