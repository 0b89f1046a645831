"""Playing, scoring and running schedules again through the domain."""

import pytest

from pmoss_datasets.domain import domain_of_env, find_domain
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError, UnsupportedError

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


def test_an_incumbent_can_be_given(env):
    SPATIAL.play(env, SPATIAL.policy("lpt"), 5)
    wanted = env.schedule
    SPATIAL.play(env, SPATIAL.policy("incumbent"), 6, incumbent=wanted)
    assert (env.incumbent.cores == wanted.cores).all()


def test_environments_are_made_by_id_and_checked():
    assert domain_of_env("pmoss/toy-v0") is SPATIAL
    assert SPATIAL.make_env({}, "pmoss/toy-v0").slices == 8
    with pytest.raises(DescriptionError, match="unknown; did you mean 'slices'"):
        SPATIAL.make_env({"slice": 4})
    for name in ("pmoss/nothing-v0", "pmoss/AccessPath-v0"):
        with pytest.raises(UnknownNameError):
            SPATIAL.make_env({}, name)
    with pytest.raises(UnknownNameError):
        domain_of_env("pmoss/nothing-v0")
    with pytest.raises(UnsupportedError, match="budget"):
        SPATIAL.policy("lpt", budget=3)
