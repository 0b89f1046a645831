"""Copies and pickles of the environments go on where they are, with the same bits."""

import copy
import os
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from pmoss_env.backends.analytic import AnalyticBackend
from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.envs.continual.vector import ContinualVectorEnv
from pmoss_env.envs.spatial import SpatialSchedulingEnv, SpatialVectorEnv
from pmoss_env.envs.threads import ThreadSchedulingEnv
from pmoss_env.errors import IllegalActionError, UnsupportedError
from tests.envs.episodes import (
    CONTINUAL,
    PATHS,
    SMALL,
    SPATIAL,
    THREADS,
    TOY,
    alike,
    legal,
    play,
)

SAMPLED = {"backend": "simulated", "backend_options": {"queries": 2_000, "records": 5_000}}
CASES = [
    (SPATIAL, {}),
    (SPATIAL, {"noise": 1.0, "order": "load"}),
    (SPATIAL, {"interference": "busy_core"}),
    (CONTINUAL, {"noise": 1.0, "deviation": 0.2}),
    (CONTINUAL, {"drift": "busy-cores", "drift_options": {"lifetime": 2.0}}),
    (CONTINUAL, {"drift": "none", **SAMPLED}),
    (PATHS, {"noise": 1.0, "reward": "saving"}),
    (PATHS, {"relaxed": True}),
    (THREADS, {}),
    (THREADS, {"program": "mixed50", "data_nodes": [2, 3], "stay": False}),
]
CLONES = [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))]


def make(name, **options):
    return gymnasium.make(name, **{**SMALL[name], **options})


def played(env, seed, steps):
    """What steps with random actions return, some of them illegal."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(steps):
        action = rng.integers(getattr(env.action_space, "nvec", getattr(env.action_space, "n", 0)))
        *step, info = env.step(action if action.ndim else int(action))
        result.append({"step": np.array(step[1:]), **step[0], "info": info})
    return result


@pytest.mark.parametrize("clone", CLONES, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_a_copy_goes_on_alone(clone, name, options):
    env = make(name, **options)
    env.reset(seed=3)
    env.action_space.seed(7)
    env.step(env.action_space.sample())
    played(env, 1, 3)
    other = clone(env)
    first, second = env.unwrapped, other.unwrapped
    assert second is not first and other.spec == env.spec
    assert (first.action_masks() == second.action_masks()).all()
    assert first.np_random_seed == second.np_random_seed == 3
    assert first.np_random is not second.np_random
    alike(played(other, 2, 2), played(env, 2, 2))
    alike(other.action_space.sample(), env.action_space.sample())
    # The generators go on alike.
    alike(other.reset(), env.reset())
    first.np_random.random()
    assert first.np_random.random() != second.np_random.random()


@pytest.mark.parametrize("name", SMALL)
def test_a_copy_before_reset_and_after_the_end_is_to_be_reset(name):
    env = make(name)
    for _ in range(2):
        other = copy.deepcopy(env)
        with pytest.raises(gymnasium.error.ResetNeeded):
            other.unwrapped.step(env.action_space.sample())
        alike(copy.deepcopy(env).reset(), env.reset())
        play(env)


@pytest.mark.parametrize(
    ("name", "options"),
    [(SPATIAL, {}), (CONTINUAL, {}), (PATHS, {"relaxed": True}), (THREADS, {"stay": False})],
    ids=str,
)
def test_an_action_that_is_refused_is_not_repeated(name, options):
    env = make(name, on_illegal="raise", **options).unwrapped
    env.reset(seed=3)
    rng, refused = np.random.default_rng(0), 0
    for _ in range(6):
        for action in (-1, *([(0, tile) for tile in range(8)] if name == CONTINUAL else [0, 2])):
            masks, tile_at = env.action_masks(), env.action_space
            if name == CONTINUAL and action != -1 and masks[0] and masks[9 + action[1]]:
                continue
            if name != CONTINUAL and action >= 0 and (action >= tile_at.n or masks[action]):
                continue
            with pytest.raises(IllegalActionError):
                env.step(action)
            refused += 1
        env.step(legal(env, rng))
    assert refused > 6
    other = copy.deepcopy(env)
    action = legal(env, rng)
    alike(env.step(action), other.step(action))


CHILD = """
import pickle, sys
env = pickle.load(sys.stdin.buffer)
action = [0, 2] if env.spec.id == "pmoss/ContinualScheduling-v1" else 1
observation, reward, *_ = env.step(action)
sys.stdout.buffer.write(pickle.dumps((observation, reward, env.unwrapped.np_random.random())))
"""


@pytest.mark.parametrize("name", SMALL)
def test_a_pickle_goes_on_in_another_process(name, tmp_path):
    env = make(name)
    env.reset(seed=3)
    played(env, 1, 2)
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps(env),
        capture_output=True,
        cwd=tmp_path,
        env=os.environ,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    observation, reward, *_ = env.step([0, 2] if name == CONTINUAL else 1)
    expected = (observation, reward, env.unwrapped.np_random.random())
    alike(pickle.loads(done.stdout), expected)


@pytest.mark.parametrize("make_vector", [SpatialVectorEnv, ContinualVectorEnv])
@pytest.mark.parametrize("count", [1, 2])
def test_what_others_step_cannot_be_copied(make_vector, count):
    envs = make_vector(count, **TOY)
    envs.reset(seed=0)
    for env in (envs, envs._envs[0]):
        with pytest.raises(UnsupportedError, match=r"sub-environment .* gymnasium\.make"):
            copy.deepcopy(env)


@pytest.mark.parametrize("made", [SpatialSchedulingEnv, ContinualSchedulingEnv])
def test_what_measures_cannot_be_copied(made, monkeypatch):
    env = made(**TOY)
    monkeypatch.setattr(AnalyticBackend, "repeatable", False)
    with pytest.raises(UnsupportedError, match="never twice the same; make another"):
        pickle.dumps(env)


def test_a_server_of_the_users_cannot_be_copied():
    own = ThreadSchedulingEnv(**SMALL[THREADS])
    own.reset(seed=0)
    env = ThreadSchedulingEnv.on(own.server, most_threads=48)
    with pytest.raises(UnsupportedError, match="a server of yours cannot be copied"):
        copy.deepcopy(env)
