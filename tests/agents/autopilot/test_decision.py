import itertools

import numpy as np
import pytest

from pmoss_agents.autopilot.decision import (
    LOOKS,
    MOST_PAIRS,
    Verdict,
    judge,
    signed_rank,
    smallest_gain,
)


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4, 5), (1, 1, 2, 2, 3), (4, 4, 4, 4, 4)])
def test_chances_are_those_of_all_signs(sizes):
    sums = {}
    for signs in itertools.product((-1, 1), repeat=len(sizes)):
        gains = [sign * size for sign, size in zip(signs, sizes, strict=True)]
        sums[signs] = signed_rank(gains)
    for rank_sum, chance in sums.values():
        as_large = sum(other >= rank_sum for other, _ in sums.values())
        assert chance == pytest.approx(as_large / len(sums))


def test_pairs_that_are_equal_say_nothing():
    assert signed_rank([]) == (0.0, 1.0) == signed_rank([0.0, 0.0])
    assert signed_rank([0.0, 2.0, 1.0]) == signed_rank([2.0, 1.0])


def test_what_always_serves_more_is_kept_and_what_serves_less_is_not():
    better = [0.1 + 0.01 * i for i in range(min(LOOKS))]
    assert [judge(better[: n + 1]) for n in range(7)] == [Verdict.OPEN] * 7
    assert judge(better) is Verdict.KEEP
    assert judge([-each for each in better[:4]]) is Verdict.REVERT
    alternating = [0.2, -0.1] * (MOST_PAIRS // 2)
    assert judge(alternating) is Verdict.REVERT


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_the_smallest_gain_is_found_by_half_of_the_trials(noise):
    rng = np.random.default_rng(3)
    quiet = [rng.normal(0.0, noise, MOST_PAIRS) for _ in range(200)]
    gain = smallest_gain(quiet)
    shift = gain / (2 + gain)
    kept = sum(
        signed_rank(rng.normal(shift, noise, MOST_PAIRS))[1] <= LOOKS[MOST_PAIRS]
        for _ in range(400)
    )
    assert 0.4 < kept / 400 < 0.6
    assert smallest_gain([[0.1, 0.2, 0.3]]) is None
    assert smallest_gain([[9.0, -9.0, 8.0, -8.0]]) == np.inf
