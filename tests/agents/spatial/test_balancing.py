"""Balancing known times over cores."""

import numpy as np
import pytest

from pmoss_agents.spatial.planning import balance, longest_first, refine


def ends(times, chosen):
    return np.bincount(chosen, times[np.arange(len(chosen)), chosen], times.shape[1])


def test_the_longest_go_first_to_the_core_that_ends_earliest():
    times = np.repeat([[2.0], [4.0], [3.0], [3.0]], 2, axis=1)
    chosen = longest_first(times)
    assert chosen.tolist() == [0, 0, 1, 1]
    assert ends(times, chosen).tolist() == [6, 6]


def test_a_slow_core_gets_less():
    times = np.tile([1.0, 3.0], (8, 1))
    assert ends(times, longest_first(times)).tolist() == [6, 6]


def test_exchanges_end_what_moves_cannot():
    # {5, 3} and {4, 2}: moving the 3 would make 9, exchanging it for the 2 makes 7 and 7.
    times = np.repeat([[5.0], [3.0], [4.0], [2.0]], 2, axis=1)
    start = np.array([0, 0, 1, 1])
    assert ends(times, start).tolist() == [8, 6]
    assert ends(times, balance(times, start)).tolist() == [7, 7]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("most", [None, 4])
def test_nothing_off_the_fullest_core_helps_any_more(seed, most):
    rng = np.random.default_rng(seed)
    times = rng.exponential(size=(12, 4)) + 0.2
    start = rng.permutation(np.arange(12) % 4)
    chosen = balance(times, start, max_per_core=most)
    top = ends(times, chosen).max()
    assert top <= ends(times, start).max()
    full = int(ends(times, chosen).argmax())
    for slice_ in np.flatnonzero(chosen == full):
        for core in range(4):
            moved = chosen.copy()
            moved[slice_] = core
            if most is None or np.bincount(moved, minlength=4).max() <= most:
                assert ends(times, moved)[[full, core]].max() >= top * (1 - 1e-4)
        for other in np.flatnonzero(chosen != full):
            swapped = chosen.copy()
            swapped[[slice_, other]] = chosen[[other, slice_]]
            assert ends(times, swapped)[[full, chosen[other]]].max() >= top * (1 - 1e-4)


def test_no_core_gets_more_than_it_may():
    times = np.tile([1.0, 100.0, 100.0], (9, 1))
    first = longest_first(times, max_per_core=3)
    assert np.bincount(first).tolist() == [3, 3, 3]
    assert np.bincount(balance(times, first, max_per_core=3)).tolist() == [3, 3, 3]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("most", [None, 11])
def test_exchanges_by_chance_go_on_where_balancing_ends(seed, most):
    rng = np.random.default_rng(seed)
    times = rng.exponential(size=(64, 6)) + 0.2
    start = rng.permutation(np.arange(64) % 6)
    first = balance(times, start, max_per_core=most)
    found = [
        refine(times, first, tries, np.random.default_rng(1), max_per_core=most)
        for tries in (0, 20, 200)
    ]
    tops = [ends(times, chosen).max() for chosen in found]
    assert found[0].tolist() == first.tolist()
    assert tops[0] >= tops[1] >= tops[2] and tops[0] > tops[2]
    again = refine(times, first, 200, np.random.default_rng(1), max_per_core=most)
    assert again.tolist() == found[2].tolist()
    if most is not None:
        assert np.bincount(found[2], minlength=6).max() <= most


def test_slices_that_take_no_time_stay():
    start = np.array([2, 2, 1])
    assert refine(np.zeros((3, 3)), start, 5, np.random.default_rng(0)).tolist() == [2, 2, 1]


def test_times_that_are_no_times_end_the_balancing():
    times = np.full((4, 2), np.nan)
    start = np.zeros(4, dtype=np.int64)
    assert np.array_equal(balance(times, start), start)
    assert refine(times, start, 5, np.random.default_rng(0)).shape == (4,)
