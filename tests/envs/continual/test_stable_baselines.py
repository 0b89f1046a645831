"""Online learners of others play as they are: masks of both parts, one behind the other."""

import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.envs.continual.stable_baselines import ContinualVecEnv
from pmoss_env.errors import UnsupportedError
from tests.envs.alike import alike

TOY = {"machine": "toy", "slices": 8, "epochs": 4, "moves_per_epoch": 2}


def make():
    return ContinualSchedulingEnv(**TOY, on_illegal="raise")


def test_maskable_ppo_learns_without_an_illegal_action():
    learner = MaskablePPO(
        "MultiInputPolicy", DummyVecEnv([make]), n_steps=16, batch_size=8, n_epochs=1, seed=1
    )
    learner.learn(32)
    env = make()
    observation, info = env.reset(seed=1)
    truncated = False
    while not truncated:
        action, _ = learner.predict(observation, action_masks=env.action_masks())
        observation, _, _, truncated, info = env.step(action)
    assert info["illegal_actions"] == 0 and np.isfinite(info["paid"])


def test_the_native_form_gives_what_a_dummy_vec_env_gives():
    native = ContinualVecEnv(3, threads=2, **TOY)
    dummy = DummyVecEnv([lambda: ContinualSchedulingEnv(**TOY) for _ in range(3)])
    assert native.observation_space == dummy.observation_space
    assert native.action_space == dummy.action_space
    for envs in (native, dummy):
        envs.seed(5)
    alike(native.reset(), dict(dummy.reset()))
    rng, ended = np.random.default_rng(0), 0
    for _ in range(24):
        for one, other in zip(native.reset_infos, dummy.reset_infos, strict=True):
            alike(one, other)
        actions = rng.integers([9, 8], size=(3, 2))
        observations, rewards, dones, infos = native.step(actions)
        expected, other_rewards, other_dones, other_infos = dummy.step(actions)
        alike(observations, dict(expected))
        alike(rewards, other_rewards)
        alike(dones, other_dones)
        for one, other in zip(infos, other_infos, strict=True):
            alike(one, other)
        ended += int(dones.sum())
        masks = [np.stack(envs.env_method("action_masks")) for envs in (native, dummy)]
        alike(*masks)
    assert ended >= 3
    native.close()


def test_maskable_ppo_learns_on_the_native_form():
    envs = ContinualVecEnv(4, on_illegal="raise", **TOY)
    model = MaskablePPO("MultiInputPolicy", envs, n_steps=16, batch_size=32, n_epochs=1, seed=0)
    model.learn(128)
    assert model.num_timesteps == 128
    with pytest.raises(UnsupportedError, match="analytic"):
        ContinualVecEnv(2, backend="hardware")
