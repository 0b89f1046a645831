"""LinUCB against the direct solution of the ridge regression."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_agents.linucb import LinUCB
from pmoss_env.errors import DescriptionError


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    features=st.integers(1, 6),
    updates=st.integers(0, 40),
    alpha=st.floats(0.0, 2.0),
    ridge=st.floats(0.1, 10.0),
)
def test_it_is_ridge_regression_per_arm(seed, features, updates, alpha, ridge):
    rng = np.random.default_rng(seed)
    bandit = LinUCB(features, alpha=alpha, ridge=ridge)
    contexts = rng.normal(size=(updates, features))
    arms = rng.integers(0, 3, updates)
    rewards = rng.normal(size=updates)
    for arm, x, reward in zip(arms, contexts, rewards, strict=True):
        bandit.update(int(arm), x, float(reward))
    x = rng.normal(size=features)
    upper = []
    for arm in range(3):
        rows, values = contexts[arms == arm], rewards[arms == arm]
        matrix = ridge * np.eye(features) + rows.T @ rows
        theta = np.linalg.solve(matrix, rows.T @ values)
        width = np.sqrt(x @ np.linalg.solve(matrix, x))
        mean, got = bandit.estimate(x, np.array([arm]))
        assert mean[0] == pytest.approx(theta @ x, abs=1e-9)
        assert got[0] == pytest.approx(width, rel=1e-9)
        upper.append(theta @ x + alpha * width)
    chosen = bandit.choose(x, np.ones(3, np.int8))
    assert upper[chosen] == pytest.approx(max(upper), abs=1e-9)
    assert bandit.trainings == updates


def test_only_allowed_arms_are_chosen_and_equal_ones_by_number():
    bandit = LinUCB(2)
    x = np.array([1.0, 2.0])
    assert bandit.choose(x, np.array([0, 1, 1])) == 1
    assert bandit.choose(x, np.array([0, 0, 1])) == 2
    with pytest.raises(DescriptionError, match="no arm"):
        bandit.choose(x, np.zeros(3))


def test_a_width_shrinks_with_every_update():
    bandit = LinUCB(3)
    x = np.array([1.0, 0.5, 2.0])
    widths = []
    for _ in range(20):
        widths.append(bandit.estimate(x, np.array([0]))[1][0])
        bandit.update(0, x, 1.0)
    assert (np.diff(widths) < 0).all()
    assert bandit.estimate(x, np.array([1]))[1][0] == widths[0]  # another arm learns nothing


def test_state_comes_back_and_the_set_of_arms_may_grow():
    bandit = LinUCB(2, alpha=0.5)
    bandit.update(4, np.array([1.0, 2.0]), 3.0)
    other = LinUCB(2, alpha=0.5)
    other.restore(bandit.arrays())
    assert (other.trainings, other.arms) == (1, 5)
    assert (other.theta == bandit.theta).all()
    other.update(9, np.array([1.0, 0.0]), 1.0)
    assert other.arms == 10
    assert bandit.arms == 5


def test_impossible_values_are_named():
    for options, named in (
        ({"features": 0}, "features"),
        ({"features": 1, "alpha": -1.0}, "alpha"),
        ({"features": 1, "ridge": 0.0}, "ridge"),
    ):
        with pytest.raises(DescriptionError, match=named):
            LinUCB(**options)
    with pytest.raises(DescriptionError, match="finite"):
        LinUCB(1).update(0, np.ones(1), float("nan"))
    with pytest.raises(DescriptionError, match="shape"):
        LinUCB(2).choose(np.ones(3), np.ones(2))
