"""Machines that are not as described: what they share, and who is told."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, UnsupportedError
from tests.envs.spatial.episodes import TOY


def _throughputs(seed: int, **changes) -> list[float]:
    env = SpatialSchedulingEnv(**TOY, **changes)
    _, info = env.reset(seed=seed)
    found = [info["throughput"]]
    done = False
    while not done:
        _, _, done, _, info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
        found.append(info["throughput"])
    # Whoever asks "what if" asks about the same machine.
    found.append(env.session.new_backend().place(env.schedule))
    found.append(env.session.new_searchable_backend().place(env.schedule))
    assert found[-1] == found[-2] == found[-3]
    return found


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


def test_the_native_batch_goes_over_to_the_next_episodes_machine():
    options = {**TOY, "deviation": 0.3}
    one = SpatialSchedulingEnv(**options)
    many = gymnasium.make_vec("pmoss/SpatialScheduling-v0", num_envs=2, **options)
    for seed in (5, 6):
        _, infos = many.reset(seed=[seed, seed + 10])
        _, info = one.reset(seed=seed)
        for _ in range(one.slices):
            assert infos["throughput"][0] == info["throughput"]
            action = int(np.flatnonzero(info["action_mask"])[0])
            _, _, _, _, infos = many.step(np.array([action, action]))
            _, _, _, _, info = one.step(action)
        assert infos["throughput"][0] == info["throughput"]
    many.close()


@pytest.mark.parametrize("value", [-0.1, 0.6, True, "much", float("nan")])
def test_impossible_deviations_are_refused(value):
    with pytest.raises(DescriptionError, match="deviation"):
        SpatialSchedulingEnv(**TOY, deviation=value)


def test_a_host_does_not_deviate():
    with pytest.raises(UnsupportedError, match=r"deviation = 0\.2: the backend 'hardware'"):
        SpatialSchedulingEnv(machine="host", backend="hardware", deviation=0.2)
    with pytest.raises(DescriptionError, match="argument of the environment"):
        SpatialSchedulingEnv(**TOY, backend_options={"deviation": 0.2})
