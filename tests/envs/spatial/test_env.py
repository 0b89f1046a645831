"""An episode of spatial scheduling: its bits, rewards, states, context and measurements."""

import itertools
import logging
import os
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.types import Schedule
from tests.envs.episodes import TOY, alike, play, total
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
    steps = play(env, 9, [1, 1, 1, 5, 5, 5, 6, 7], options={"incumbent": remote})
    assert steps[-1].info["throughput"] == info["throughput"]


def test_the_context_is_drawn_anew_unless_it_is_fixed():
    drawn, fixed = SpatialSchedulingEnv(**TOY), SpatialSchedulingEnv(**TOY, workload_seed=7)
    seeds, incumbents = set(), set()
    for seed in range(12):
        drawn.reset(seed=seed)
        fixed.reset(seed=seed)
        seeds.add(drawn.instance.workload_seed)
        incumbents.add(drawn.incumbent)
        assert fixed.instance.workload_seed == 7 and fixed.incumbent == drawn.incumbent
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
    assert plain.incumbent == noisy.incumbent and plain.instance == noisy.instance
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
    cores, throughput, _ = backend.model.best_by_enumeration(2_000_000)
    assert throughput == best > worst
    assert backend.place(backend.machine.local_schedule(cores)) == best


@pytest.mark.parametrize(("every", "measurements"), [(None, 9), (3, 4), (8, 2), (100, 2)])
def test_improvement_by_measuring(measuring, caplog, every, measurements):
    with caplog.at_level(logging.WARNING):
        env = SpatialSchedulingEnv(**TOY, reward="improvement", measure_every=every)
    assert f"measures {measurements} times" in caplog.text
    steps = play(env)
    assert len(env.backend.measured) == measurements
    info = steps[-1].info
    assert total(steps) == pytest.approx(info["throughput"] - info["incumbent_throughput"])
    paid = [t for t, step in enumerate(steps) if step.reward]
    assert all(t == 8 or t % (every or 1) == 0 for t in paid)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_measuring_seldom_changes_what_is_read_and_nothing_else(noise):
    actions = [1, 2, 2, 6, 7, 1, 5, 3]
    always = play(SpatialSchedulingEnv(**TOY, noise=noise), 3, actions)
    seldom = play(SpatialSchedulingEnv(**TOY, noise=noise, measure_every=3), 3, actions)
    for t, step in enumerate(seldom):
        alike(step.observation, always[t].observation)
        latest = t if t == 8 else t - t % 3
        assert step.info["throughput"] == always[latest].info["throughput"]
    assert total(seldom) == pytest.approx(total(always))


def test_an_episode_can_be_undone():
    env = gymnasium.make("pmoss/toy-v0", noise=1.0).unwrapped
    with pytest.raises(ResetNeeded):
        env.restore()
    env.reset(seed=4)
    before, schedule = env.incumbent_snapshot, env.incumbent
    for _ in range(3):
        env.step(int(np.flatnonzero(env.action_masks())[0]))
    again = env.restore()
    assert again.throughput == before.throughput
    np.testing.assert_array_equal(again.slice_counters, before.slice_counters)
    assert env.schedule == schedule
    with pytest.raises(ResetNeeded):
        env.step(int(np.flatnonzero(env.action_masks())[0]))


def _throughputs(seed: int, **changes) -> list[float]:
    env = SpatialSchedulingEnv(**TOY, **changes)
    throughputs = [step.info["throughput"] for step in play(env, seed)]
    # Searches evaluate schedules on the same machine.
    for backend in (env.session.new_backend(), env.session.new_searchable_backend()):
        assert backend.place(env.schedule) == throughputs[-1]
    return throughputs


def test_a_true_machine_is_the_same_for_a_seed_and_differs_between_episodes():
    plain, true = _throughputs(3), _throughputs(3, deviation=0.2)
    assert true == _throughputs(3, deviation=0.2)
    assert all(a != b for a, b in zip(plain, true, strict=True))
    ratios = {
        round(_throughputs(seed, deviation=0.2)[0] / _throughputs(seed)[0], 6) for seed in range(4)
    }
    assert len(ratios) == 4


@pytest.mark.parametrize("value", [-0.1, 0.6, True, "much", float("nan")])
def test_impossible_deviations_are_refused(value):
    with pytest.raises(DescriptionError, match="deviation"):
        SpatialSchedulingEnv(**TOY, deviation=value)


def test_a_host_does_not_deviate():
    with pytest.raises(UnsupportedError, match=r"deviation = 0\.2: the backend 'hardware'"):
        SpatialSchedulingEnv(machine="host", backend="hardware", deviation=0.2)
    with pytest.raises(DescriptionError, match="argument of the environment"):
        SpatialSchedulingEnv(**TOY, backend_options={"deviation": 0.2})
