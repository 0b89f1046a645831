"""Fitting co-tenants to counters, where misses cost other than described."""

import numpy as np
import pytest

from pmoss_datasets import find_domain
from pmoss_datasets.continual.fitting import Fit, co_tenants
from pmoss_datasets.continual.worlds import World
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES

CONTINUAL = find_domain("continual")


@pytest.fixture(scope="module")
def session():
    env = CONTINUAL.make_env({"slices": 128, "epochs": 3, "drift": "none"})
    env.reset(seed=1)
    yield env.unwrapped.session
    env.close()


def counted(session, streams, cost):
    """(slices, H) counters under streams, on a machine whose misses cost ``cost`` of described."""
    machine, world = session.machine, World(session)
    world.believe(co_tenants(machine, np.concatenate([np.zeros(machine.cores), streams])))
    world.place(session.cores_seen)
    names = ("elapsed_us", "task_clock_us", "cycles_l3_miss", "llc_misses")
    counters = np.zeros((session.slices, len(COUNTER_NAMES)))
    for name, values in zip(names, world.counters(*names), strict=True):
        counters[:, COUNTER_INDEX[name]] = values
    counters[:, COUNTER_INDEX["cycles_l3_miss"]] *= cost
    return counters


def test_an_epoch_without_misses_teaches_nothing(session):
    cores = session.cores_seen
    fit, calm = Fit(World(session), calm=0.35), np.zeros(session.machine.nodes)
    nothing = np.zeros((cores.size, len(COUNTER_NAMES)))
    fit.see(cores, nothing)
    assert not fit.streams.any()
    fit.see(cores, counted(session, calm, 0.5))
    assert not fit.streams.any()
