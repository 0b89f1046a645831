"""Actions of several parts as whole numbers."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from pmoss_datasets.stepwise.actions import Actions
from pmoss_env.errors import IllegalActionError, UnsupportedError


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_numbers_and_actions_are_one_to_one(parts, data):
    actions = Actions(tuple(parts))
    number = data.draw(st.integers(0, int(np.prod(parts)) - 1))
    assert actions.number(actions.action(number)) == number
    masks = [data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for n in parts]
    mask = np.concatenate(masks).astype(np.int8)
    chosen = np.atleast_1d(actions.action(number))
    assert actions.allowed(number, mask) == all(m[c] for m, c in zip(masks, chosen, strict=True))
    if all(any(m) for m in masks):
        assert actions.allowed(actions.draw(mask, np.random.default_rng(0)), mask)
        assert actions.chance(mask) == pytest.approx(1 / np.prod([sum(m) for m in masks]))


def test_what_is_no_action_is_refused():
    actions = Actions((2, 3))
    assert actions.columns == 5
    for action in (1, [1], [0, 3], [0, -1], [0, 0.5]):
        with pytest.raises(IllegalActionError):
            actions.number(action)
    mask = np.ones(5, np.int8)
    assert not actions.allowed(6, mask) and not actions.allowed(-1, mask)
    assert Actions.of(spaces.MultiDiscrete([2, 3]), "x") == actions
    for space in (spaces.Discrete(3, start=1), spaces.Box(0, 1), spaces.MultiDiscrete([[2, 3]])):
        with pytest.raises(UnsupportedError, match="x: action space"):
            Actions.of(space, "x")
