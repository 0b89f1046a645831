"""An episode of spatial scheduling: its bits, its rewards, its states and its context."""

import itertools
import os
import sys

import numpy as np
import pytest

from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.types import Schedule
from tests.envs.episodes import TOY, play, total
from tests.native.builds import run

CHILD = """
import hashlib, sys
import gymnasium, numpy as np, pmoss_env
env = gymnasium.make("pmoss/SpatialScheduling-v0", slices=64, interference="busy_core", noise=0.5)
digest = hashlib.sha256()
observation, info = env.reset(seed=11)
done = False
while not done:
    for values in (observation, info):
        for key in sorted(values):
            digest.update(np.asarray(values[key]).tobytes())
    action = np.flatnonzero(info["action_mask"])[info["slice"] * 7 % 56]
    observation, reward, done, _, info = env.step(action)
    digest.update(np.float64(reward).tobytes())
print(digest.hexdigest())
"""


def test_same_bits_in_every_process():
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    digests = {run(sys.executable, "-c", CHILD, PYTHONHASHSEED=seed, **path) for seed in ("0", "1")}
    assert len(digests) == 1


@pytest.mark.parametrize("load", ["closed", "saturated"])
def test_the_return_of_improvement_is_the_gain_over_the_incumbent(load):
    steps = play(SpatialSchedulingEnv(slices=64, load=load, interference="busy_core"))
    info = steps[-1].info
    gain = info["throughput"] - info["incumbent_throughput"]
    assert total(steps) == pytest.approx(gain, abs=1e-9)
    assert abs(gain) > 0.01
    assert all(
        after.reward == after.info["throughput"] - before.info["throughput"]
        for before, after in itertools.pairwise(steps)
    )


def test_a_given_incumbent_keeps_the_rest_of_the_context():
    env = SpatialSchedulingEnv(**TOY, interference="busy_core")
    env.reset(seed=9)
    instance = env.instance
    cores = [1, 1, 1, 5, 5, 5, 6, 7]
    _, info = env.reset(seed=9, options={"incumbent": cores})
    assert env.instance == instance
    assert np.array_equal(env.incumbent.cores, cores)
    # Data of an unplaced slice stay where the incumbent has them, even on another node.
    remote = Schedule(cores, 1 - env.machine.node_of_core[np.array(cores)])
    _, far = env.reset(seed=9, options={"incumbent": remote})
    assert far["throughput"] < info["throughput"]
    env.step(1)
    assert list(env.schedule.nodes) == [0, *remote.nodes[1:]]
    actions = [1, 1, 1, 5, 5, 5, 6, 7]
    steps = play(env, 9, actions, options={"incumbent": remote})
    assert steps[-1].info["throughput"] == info["throughput"]


def test_the_context_is_drawn_anew_unless_it_is_fixed():
    drawn, fixed = SpatialSchedulingEnv(**TOY), SpatialSchedulingEnv(**TOY, workload_seed=7)
    seeds, incumbents = set(), set()
    for seed in range(12):
        drawn.reset(seed=seed)
        fixed.reset(seed=seed)
        seeds.add(drawn.instance.workload_seed)
        incumbents.add(drawn.incumbent)
        assert fixed.instance.workload_seed == 7
        assert fixed.incumbent == drawn.incumbent
    assert len(seeds) == 12
    assert len(incumbents) > 4
    grouped = SpatialSchedulingEnv(**TOY, incumbent="grouped")
    incumbents = set()
    for seed in range(12):
        grouped.reset(seed=seed)
        incumbents.add(grouped.incumbent)
        # Still grouped: adjacent slices share a node, and each worker has as many as before.
        assert len(set(grouped.incumbent.nodes[:4])) == len(set(grouped.incumbent.nodes[4:])) == 1
        assert sorted(np.bincount(grouped.incumbent.cores, minlength=8)) == [0, 0, 1, 1, 1, 1, 2, 2]
    assert len(incumbents) > 6


def test_noise_changes_readings_and_not_the_context():
    plain, noisy = (SpatialSchedulingEnv(**TOY, noise=noise) for noise in (0.0, 1.0))
    steps, noisy_steps = play(plain, 2), play(noisy, 2)
    assert plain.incumbent == noisy.incumbent
    assert plain.instance == noisy.instance
    exact, read = ([step.info["throughput"] for step in each] for each in (steps, noisy_steps))
    ratio = np.divide(read, exact)
    assert (abs(ratio - 1) < 0.1).all()
    assert len(set(ratio)) == 9
    views = [each[0].observation["slice_view"] for each in (steps, noisy_steps)]
    assert not np.array_equal(*views)
    assert total(noisy_steps) == pytest.approx(read[-1] - read[0])


def brute_force(slices):
    env = SpatialSchedulingEnv(machine="toy", slices=slices, workload_seed=1)
    env.reset(seed=0)
    backend = env.session.new_backend()
    throughputs = [
        backend.place(env.machine.local_schedule(cores))
        for cores in itertools.product(env.machine.workers.tolist(), repeat=slices)
    ]
    return backend, max(throughputs), min(throughputs)


def test_enumeration_agrees_with_brute_force():
    backend, best, worst = brute_force(4)
    schedule, throughput = backend.best_by_enumeration()
    assert throughput == best > worst
    assert backend.place(schedule) == best
