"""The native vector environment for Stable-Baselines3; needs the extra online.

``PPO("MultiInputPolicy", ContinualVecEnv(8))``; sb3-contrib's ``MaskablePPO`` finds the masks.
"""

from __future__ import annotations

from pmoss_env.envs.continual.vector import ContinualVectorEnv
from pmoss_env.envs.stable_baselines import BatchVecEnv


class ContinualVecEnv(BatchVecEnv):
    """A ``ContinualVectorEnv`` for Stable-Baselines3, see BatchVecEnv."""

    vector_env = ContinualVectorEnv
