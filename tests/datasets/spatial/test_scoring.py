"""Playing, scoring and running schedules again through the domain."""

import pytest

from pmoss_datasets.domain import find_domain
from pmoss_env.errors import DatasetError

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


def test_recorded_actions_give_the_same_again(env):
    rollout = SPATIAL.play(env, SPATIAL.policy("lpt"), 5)
    again = SPATIAL.rerun(env, 5, rollout.actions)
    assert (again.start, again.outcome, again.total) == (
        rollout.start,
        rollout.outcome,
        rollout.total,
    )
    with pytest.raises(DatasetError, match="3 actions do not end the episode"):
        SPATIAL.rerun(env, 5, rollout.actions[:3])
    with pytest.raises(DatasetError, match="cannot be run again"):
        SPATIAL.rerun(env, 5, [*rollout.actions, 0])
