"""Backends that measure: when, and what it changes."""

from __future__ import annotations

import logging

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.types import COUNTERS
from tests.envs.episodes import TOY, alike, play, total


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


def test_close_closes_the_backend_and_repeats(measuring):
    env = SpatialSchedulingEnv(**TOY)
    env.reset(seed=0)
    env.close()
    env.close()
    assert env.backend.closed == 2
    with pytest.raises(ResetNeeded):
        env.step(1)


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


def test_without_a_pmu_only_software_counters_are_observed():
    bare, virtual = (SpatialSchedulingEnv(**TOY, counters=c) for c in ("all", "software"))
    every, shown = bare.reset(seed=3)[0], virtual.reset(seed=3)[0]
    software = np.array([counter.source != "hardware" for counter in COUNTERS])
    assert 0 < software.sum() < software.size
    assert np.array_equal(shown["slice_view"], every["slice_view"] * software)
    assert np.array_equal(shown["incumbent_view"], every["incumbent_view"] * software)
    # The facts of the processor are available all the same.
    assert not shown["meta"][:-3].any() and every["meta"][:-3].any()
    assert np.array_equal(shown["meta"][-3:], every["meta"][-3:])
    snapshot = virtual.incumbent_snapshot
    available = bare.incumbent_snapshot.counters_available
    assert np.array_equal(snapshot.counters_available, available & software)
    assert snapshot.throughput == bare.incumbent_snapshot.throughput
    finals = []
    for env in (bare, virtual):
        for _ in range(env.slices):
            info = env.step(int(env.action_masks().argmax()))[-1]
        finals.append(info["throughput"])
    assert finals[0] == finals[1]
    assert not virtual.final_snapshot().offcore_available.any()
    assert bare.final_snapshot().offcore_available.any()
