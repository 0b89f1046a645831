"""Copies and pickles of an environment go on where it is."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

from pmoss_env.backends.analytic import AnalyticBackend
from pmoss_env.envs.spatial import SpatialSchedulingEnv, SpatialVectorEnv
from pmoss_env.errors import UnsupportedError

TOY = {"machine": "toy", "slices": 8}


def played(env, tiles):
    """The bits of what an environment returns."""
    result = []
    for tile in tiles:
        observation, reward, terminated, _, info = env.step(tile)
        values = [*observation.values(), *info.values(), reward, terminated]
        result += [np.asarray(value).tobytes() for value in values]
    return result


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize(
    "arguments", [{}, {"noise": 1.0, "order": "load"}, {"interference": "busy_core"}], ids=str
)
def test_a_copy_goes_on_alone(clone, arguments):
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **TOY, **arguments)
    env.reset(seed=3, options={"incumbent": [1, 2, 3, 5, 6, 7, 1, 2]})
    played(env, [1, 0, 4])  # tiles 0 and 4 are remapped
    other = clone(env)
    assert other.unwrapped.schedule == env.unwrapped.schedule
    assert other.spec == env.spec
    rest = played(other, [2, 2, 3, 5, 6])
    assert rest == played(env, [2, 2, 3, 5, 6])
    # The generators go on alike.
    one, two = env.reset()[1], other.reset()[1]
    assert one["throughput"] == two["throughput"]
    assert one["incumbent_throughput"] == two["incumbent_throughput"]


def test_a_copy_before_reset_and_after_the_end_is_to_be_reset():
    env = SpatialSchedulingEnv(**TOY)
    assert copy.deepcopy(env).reset(seed=1)[1]["slice"] == 0
    env.reset(seed=1)
    played(env, [1] * 8)
    with pytest.raises(gymnasium.error.ResetNeeded):
        copy.deepcopy(env).step(1)


def test_what_cannot_be_repeated_cannot_be_copied(monkeypatch):
    envs = SpatialVectorEnv(2, **TOY)
    with pytest.raises(UnsupportedError, match="sub-environment"):
        copy.deepcopy(envs.sub_environments()[0])
    env = SpatialSchedulingEnv(**TOY)
    monkeypatch.setattr(AnalyticBackend, "repeatable", False)
    with pytest.raises(UnsupportedError, match="never twice"):
        pickle.dumps(env)
