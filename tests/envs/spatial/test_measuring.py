"""Backends that measure, and machines that deviate from their description."""

import logging

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, UnsupportedError
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


def test_without_deviation_the_bits_are_those_of_the_described_machine():
    assert _throughputs(3, deviation=0.0) == _throughputs(3)


@pytest.mark.parametrize("value", [-0.1, 0.6, True, "much", float("nan")])
def test_impossible_deviations_are_refused(value):
    with pytest.raises(DescriptionError, match="deviation"):
        SpatialSchedulingEnv(**TOY, deviation=value)


def test_a_host_does_not_deviate():
    with pytest.raises(UnsupportedError, match=r"deviation = 0\.2: the backend 'hardware'"):
        SpatialSchedulingEnv(machine="host", backend="hardware", deviation=0.2)
    with pytest.raises(DescriptionError, match="argument of the environment"):
        SpatialSchedulingEnv(**TOY, backend_options={"deviation": 0.2})
