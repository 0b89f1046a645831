"""Worlds as a planner believes them to be."""

import numpy as np

from pmoss_datasets import find_domain
from pmoss_datasets.continual.worlds import World, free_time
from pmoss_env.types import CoTenant


def test_each_co_tenant_of_a_core_takes_of_what_the_others_leave():
    env = find_domain("continual").make_env({"slices": 128, "epochs": 3, "drift": "none"})
    env.reset(seed=1)
    session = env.unwrapped.session
    machine, cores, world = session.machine, session.cores_seen, World(session)
    twice, once = (int(core) for core in machine.workers[[3, 9]])
    tenants = [CoTenant("busy_core", twice, 0.5), CoTenant("busy_core", twice, 0.3)]
    tenants += [CoTenant("busy_core", once, 0.2), CoTenant("memory_stream", 1, 0.6)]
    free = free_time(machine, tenants)
    assert free[3] == 0.5 * 0.7 and free[9] == 0.8 and np.count_nonzero(free == 1.0) == 54
    world.believe(tenants)
    world.place(cores)
    elapsed, work = (
        np.bincount(cores, values, machine.cores)[machine.workers]
        for values in world.counters("elapsed_us", "task_clock_us")
    )
    used = elapsed > 0
    np.testing.assert_allclose(work[used] / elapsed[used], free[used], atol=1e-3)
    env.close()
