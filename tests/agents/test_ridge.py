"""Ridge regressions against their direct solution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_agents.ridge import RidgeArms
from pmoss_env.errors import CheckpointError, DescriptionError


def direct(x, y, ridge):
    """The ridge solution and the inverse, without any updating."""
    gram = ridge * np.eye(x.shape[1]) + x.T @ x
    return np.linalg.solve(gram, x.T @ y), np.linalg.inv(gram)


@pytest.mark.parametrize("absorbed", [0, 20, 60])
def test_updates_equal_the_direct_solution(absorbed):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    arms = RidgeArms(3, 5, ridge=0.7)
    if absorbed:
        arms.absorb(1, x[:absorbed], y[:absorbed])
    for row, target in zip(x[absorbed:], y[absorbed:], strict=True):
        arms.update(1, row, target)
    theta, inverse = direct(x, y, 0.7)
    assert np.allclose(arms.theta[1], theta)
    assert np.allclose(arms.inverse[1], inverse)
    assert arms.count.tolist() == [0, 60, 0]
    assert not arms.theta[[0, 2]].any()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    features=st.integers(1, 6),
    updates=st.integers(0, 40),
    ridge=st.floats(0.1, 10.0),
)
def test_arms_that_were_never_named_are_added(seed, features, updates, ridge):
    rng = np.random.default_rng(seed)
    bandit = RidgeArms(0, features, ridge)
    contexts, rewards = rng.normal(size=(updates, features)), rng.normal(size=updates)
    arms = rng.integers(0, 3, updates)
    for arm, x, reward in zip(arms, contexts, rewards, strict=True):
        bandit.update(int(arm), x, float(reward))
    x = rng.normal(size=features)
    mean, width = bandit.estimate(x, np.arange(3))
    for arm in range(3):
        theta, inverse = direct(contexts[arms == arm], rewards[arms == arm], ridge)
        assert mean[arm] == pytest.approx(theta @ x, abs=1e-9)
        assert width[arm] == pytest.approx(np.sqrt(x @ inverse @ x), rel=1e-9)
    chosen = [each[[0, 2]] for each in (mean, width)]
    assert np.array_equal(bandit.estimate(x, np.array([0, 2])), chosen)
    assert bandit.count.sum() == updates and bandit.estimate(x, arms[:0])[0].size == 0


def test_it_is_restored_and_goes_on_with_the_same_bits():
    arms, other = RidgeArms(2, 3), RidgeArms(0, 3)
    arms.update(1, np.arange(3.0), 2.0)
    other.restore(arms.arrays())
    for each in (arms, other):
        each.update(0, np.ones(3), 1.0)
        each.update(1, np.ones(3), 1.0)
    assert np.array_equal(other.theta, arms.theta)
    assert np.array_equal(other.width(np.ones(3)), arms.width(np.ones(3)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: a.pop("gram"),
        lambda a: a.update(moment=a["moment"][:, :1]),
        lambda a: a.update(theta=a["theta"][:1]),
        lambda a: a.update(gram=np.zeros_like(a["gram"])),
        lambda a: a.update(gram=np.full_like(a["gram"], np.nan)),
        lambda a: a.update(count=np.array(["many", "few"])),
    ],
)
def test_damaged_states_are_refused_and_change_nothing(damage):
    arms, other = RidgeArms(2, 3), RidgeArms(2, 3)
    arms.update(1, np.arange(3.0), 2.0)
    arrays = arms.arrays()
    damage(arrays)
    with pytest.raises(CheckpointError):
        other.restore(arrays)
    assert not other.count.any()
    with pytest.raises(CheckpointError, match="4 features"):
        RidgeArms(2, 4).restore(arms.arrays())


def test_impossible_numbers_are_named():
    with pytest.raises(DescriptionError, match="arms = -1"):
        RidgeArms(-1, 4)
    with pytest.raises(DescriptionError, match="features = 0"):
        RidgeArms(1, 0)
    with pytest.raises(DescriptionError, match="ridge"):
        RidgeArms(1, 4, ridge=0.0)
    with pytest.raises(DescriptionError, match="finite"):
        RidgeArms(1, 1).update(0, np.ones(1), float("nan"))
