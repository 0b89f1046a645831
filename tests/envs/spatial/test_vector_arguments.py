"""The vector environment refuses bad actions and arguments by name."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from tests.envs.spatial.batches import TOY, follow


def legal_tile(seed):
    rng = np.random.default_rng(seed)

    def draw(t, masks):
        return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])

    return draw


def test_on_raise_nothing_moves():
    envs = SpatialVectorEnv(2, on_illegal="raise", **TOY)
    singles = [SpatialSchedulingEnv(on_illegal="raise", **TOY) for _ in range(2)]
    envs.reset(seed=0)
    with pytest.raises(IllegalActionError, match="action 4 of sub-environment 1"):
        envs.step(np.array([1, 4]))
    assert envs.call("schedule") == envs.call("incumbent")
    # A masked action of a sub-environment that only resets is ignored.
    assert follow(envs, singles, 5, legal_tile(3), 8) == 2
    envs.step(np.array([4, 4]))


def test_masks_are_known_before_reset():
    envs = SpatialVectorEnv(2, **TOY)
    masks = envs.action_masks()
    assert masks.dtype == np.bool_
    assert np.array_equal(masks[1], SpatialSchedulingEnv(**TOY).action_masks())


BAD_ACTIONS = [
    (np.array([1, 8]), "action 8 of sub-environment 1"),
    (np.array([-1, 1]), "action -1 of sub-environment 0"),
    (np.array([1]), "shape"),
    (np.array([[1, 1]]), "shape"),
    (np.array([1.0, 1.0]), "float64"),
    (1, "shape"),
]


@pytest.mark.parametrize(("actions", "words"), BAD_ACTIONS)
def test_bad_actions_are_refused_before_anything_moves(actions, words):
    envs = SpatialVectorEnv(2, **TOY)
    envs.reset(seed=0)
    with pytest.raises(IllegalActionError, match=words):
        envs.step(actions)
    assert envs.call("schedule") == envs.call("incumbent")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"num_envs": 0}, DescriptionError, "num_envs = 0"),
        ({"num_envs": 2.0}, DescriptionError, "num_envs = 2.0"),
        ({"threads": 0}, DescriptionError, "threads = 0"),
        ({"threads": True}, DescriptionError, "threads = True"),
        ({"backend": "hardware"}, UnsupportedError, "vectorization_mode='sync'"),
        ({"backend": "quantum"}, UnknownNameError, "quantum"),
        ({"order": "random"}, UnknownNameError, "random"),
        ({"autoreset_mode": "Disabled"}, UnknownNameError, "Disabled"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, error, words):
    with pytest.raises(error, match=words):
        SpatialVectorEnv(**{"num_envs": 2, **TOY, **arguments})


def test_no_step_before_reset_or_after_close():
    envs = SpatialVectorEnv(2, **TOY)
    with pytest.raises(ResetNeeded):
        envs.step(np.array([1, 1]))
    envs.reset(seed=0)
    with pytest.raises(DescriptionError, match="3 were given for 2"):
        envs.reset(seed=[1, 2, 3])
    envs.step(np.array([1, 1]))
    envs.close()
    envs.close()
    assert envs.closed
    with pytest.raises(ResetNeeded):
        envs.step(np.array([1, 1]))
