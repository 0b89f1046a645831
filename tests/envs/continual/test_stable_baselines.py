"""Online learners of others play as they are: masks of both parts, one behind the other."""

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

from pmoss_env.envs.continual import ContinualSchedulingEnv


def make():
    return ContinualSchedulingEnv(
        machine="toy", slices=8, epochs=4, moves_per_epoch=2, on_illegal="raise"
    )


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
