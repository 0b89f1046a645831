"""Playing, scoring and running schedules again through the domain."""

import pytest

from pmoss_datasets.domain import find_domain

SPATIAL = find_domain("spatial")
ENV = {"machine": "toy", "slices": 6, "interference": "busy_core"}


@pytest.fixture
def env():
    made = SPATIAL.make_env(ENV)
    yield made
    made.close()


def test_scores_lie_between_random_and_search(env):
    judge = SPATIAL.judge(env)
    env.reset(seed=3)
    judge.begin()
    low, high = judge.reference(3, budget=500, draws=20)
    rollout = SPATIAL.play(env, SPATIAL.policy("local-search"), 3, judge)
    assert low < judge.outcome(rollout) <= high
    assert rollout.outcome == judge.outcome(rollout)  # no noise, the same model
    assert len(rollout.actions) == 6 and rollout.illegal_actions == 0
    assert judge.reference(3, budget=500, draws=20) == (low, high)
    judge.close()
