from __future__ import annotations

import numpy as np
import pytest

from pmoss_env.errors import UnknownNameError
from pmoss_env.interference import BUSY_SHARE, INTERFERENCE, draw_neighbours
from pmoss_env.machines import load_machine


@pytest.mark.parametrize(("machine", "most"), [("toy", 1), ("milan-nps4", 6), ("skylake-x-8n", 7)])
def test_busy_cores_are_distinct_workers_within_the_stated_range(machine, most):
    machine = load_machine(machine)
    counts, shares = set(), []
    for seed in range(300):
        neighbours = draw_neighbours("busy_core", machine, np.random.default_rng(seed))
        cores = [neighbour.core for neighbour in neighbours]
        assert len(set(cores)) == len(cores)
        assert machine.worker_mask[cores].all()
        assert {neighbour.family for neighbour in neighbours} == {"busy_core"}
        counts.add(len(cores))
        shares += [neighbour.share for neighbour in neighbours]
    assert counts == set(range(1, most + 1))
    assert BUSY_SHARE[0] <= min(shares) < BUSY_SHARE[0] + 0.05
    assert BUSY_SHARE[1] - 0.05 < max(shares) < BUSY_SHARE[1]


def test_none_is_none_and_draws_nothing():
    rng = np.random.default_rng(0)
    assert draw_neighbours("none", load_machine("toy"), rng) == ()
    assert rng.random() == np.random.default_rng(0).random()


def test_families_are_described_and_unknown_ones_refused():
    assert all(name == f.name and f.description for name, f in INTERFERENCE.items())
    with pytest.raises(UnknownNameError, match="Did you mean 'busy_core'"):
        draw_neighbours("busy_cores", load_machine("toy"), np.random.default_rng(0))
