"""Corrections of foretold times by measured ones."""

import numpy as np

from pmoss_agents.spatial.planning.planner import NOISE, SPREADS, fit_correction

NODES = np.array([0, 0, 0, 1, 1, 1])


def test_what_is_off_everywhere_is_off_where_nothing_ran():
    off = np.full(200, 0.1)
    columns = np.arange(200) % 5
    shift = fit_correction([off], [columns], NODES).shift
    assert (abs(shift[:, :5] - 0.1) < 0.02).all()
    assert 0.05 < shift[:, 5].mean() < 0.12


def test_a_slow_core_and_a_slow_node_are_told_apart():
    columns = np.tile([0, 1, 2, 3, 4], 40)
    core = fit_correction([np.where(columns == 0, 0.3, 0.0)], [columns], NODES).shift.mean(0)
    assert core[0] > 0.25 > 0.1 > abs(core[1:]).max()
    node = fit_correction([np.where(columns > 2, 0.3, 0.0)], [columns], NODES).shift.mean(0)
    assert node[5] > 0.1 > abs(node[:3]).max()


def test_pairs_that_were_measured_are_known_best():
    rng = np.random.default_rng(0)
    truth = 0.04 * rng.normal(size=(30, 6))
    columns = [rng.integers(0, 6, 30) for _ in range(20)]
    off = [truth[np.arange(30), where] + NOISE * rng.normal(size=30) for where in columns]
    found = fit_correction(off, columns, NODES)
    often = np.zeros((30, 6))
    for where in columns:
        often[np.arange(30), where] += 1
    error = abs(found.shift - truth)
    assert error[often >= 4].mean() < 0.5 * abs(truth).mean()
    assert (found.left[often == 0] == 1).all()
    assert (np.diff([found.left[often == n].max() for n in (1, 2, 3, 4)]) < 0).all()
    assert (found.variance >= SPREADS[-1] ** 2).all()


def test_what_was_not_measured_shifts_nothing():
    off = [np.full(8, np.nan), np.where(np.arange(8) < 4, 0.2, np.nan)]
    found = fit_correction(off, [np.arange(8) % 6] * 2, NODES)
    assert np.isfinite(found.shift).all()
    nothing = fit_correction([np.full(8, np.nan)], [np.arange(8) % 6], NODES)
    assert not nothing.shift.any()
