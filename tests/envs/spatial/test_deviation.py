"""Machines that deviate from their description, and who observes it."""

import pytest

from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, UnsupportedError
from tests.envs.episodes import TOY, play


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
