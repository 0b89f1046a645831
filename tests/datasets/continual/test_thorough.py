"""The thorough planner: what it reads off counters, and that it plays legally."""

import numpy as np
import pytest

from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.thorough import Reading, ThoroughPlanner
from pmoss_datasets.continual.worlds import World

TOY = {"machine": "toy", "slices": 16, "epochs": 6}


def session_of(**env):
    made = CONTINUAL.make_env({**TOY, **env})
    made.reset(seed=3)
    return made, made.unwrapped.session


@pytest.mark.parametrize("quiet", [0.0, 0.2])
def test_what_cores_lose_by_themselves_is_not_taken_for_co_tenants(quiet):
    env, session = session_of(drift="none", deviation=0.2, noise=0.0)
    machine = session.machine
    reading = Reading(World(session), quiet)
    shares = reading.see(session.cores_seen, session.snapshot.slice_counters)
    lost = {tenant.target: tenant.strength for tenant in session.conditions(0).co_tenants}
    used = np.unique(session.cores_seen)
    if quiet:
        assert not shares[machine.workers].any()
        np.testing.assert_allclose(reading.own[used], [lost[core] for core in used], atol=1e-3)
    else:
        assert not reading.own.any() and shares[machine.workers].any()
    believed = reading.believed(shares)
    np.testing.assert_array_equal(believed[machine.cores :], shares[machine.cores :])
    assert (believed >= shares).all()
    env.close()


def test_it_plays_legally_and_the_same_again():
    env = CONTINUAL.make_env({**TOY, "drift": "jobs", "noise": 1.0, "on_illegal": "raise"})
    played = [CONTINUAL.play(env, ThoroughPlanner(), 5) for _ in range(2)]
    assert len({(each.actions, each.outcome) for each in played}) == 1
    assert any(action < 16 * env.unwrapped.machine.tiles for action in played[0].actions)
    env.close()
