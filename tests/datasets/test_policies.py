import numpy as np
import pytest

from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.policies import Measured, SchedulePolicy
from pmoss_env.errors import DescriptionError, UnsupportedError

SPATIAL = "pmoss/SpatialScheduling-v0"
TOY = {"machine": "toy", "slices": 8}


def played(policy, seed=3, **changes):
    domain = domain_of_env(SPATIAL)
    env = domain.make_env({**TOY, **changes})
    env.reset(seed=seed)
    if isinstance(policy, Measured):
        policy.check_env(env)
    judge = domain.judge(env)
    try:
        return domain.play(env, policy, seed, judge), env.session
    finally:
        judge.close()
        env.close()


def test_measurements_have_the_noise_and_the_counters_of_the_episode():
    readings = []

    def look(context):
        assert context.backend is None
        readings.append(context.measurements.measure(context.incumbent))
        return context.incumbent

    _, session = played(Measured(SchedulePolicy(look), 1), noise=1.0, counters="software")
    assert readings[0].provenance["noise"] == 1.0
    assert np.array_equal(
        readings[0].counters_available, session.incumbent_snapshot.counters_available
    )
    # The reading is another one than that which the episode began with.
    assert readings[0].throughput != session.incumbent_snapshot.throughput


def test_a_policy_that_cannot_plan_plays_as_ever():
    class First:
        def reset(self):
            pass

        def act(self, observation, mask):
            return int(mask.argmax())

    policy = Measured(First(), 10)
    assert played(policy)[0].actions == played(First())[0].actions
    assert policy.used == 0


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(DescriptionError, match="measurements = -2"):
        Measured(SchedulePolicy("lpt"), -2)
    policy = Measured(SchedulePolicy("lpt"), 1)
    domain = domain_of_env("pmoss/ThreadScheduling-v0")
    env = domain.make_env({})
    with pytest.raises(UnsupportedError, match="no schedules that could be run"):
        policy.check_env(env)
    env.close()
    with pytest.raises(UnsupportedError, match="call check_env"):
        policy.plan(None, None)
