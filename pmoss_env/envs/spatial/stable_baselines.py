"""The native vector environment for Stable-Baselines3; needs the extra online.

``PPO("MultiInputPolicy", SpatialVecEnv(8))``; sb3-contrib's ``MaskablePPO`` finds the masks.
"""

from __future__ import annotations

from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.envs.stable_baselines import BatchVecEnv


class SpatialVecEnv(BatchVecEnv):
    """A ``SpatialVectorEnv`` for Stable-Baselines3, see BatchVecEnv."""

    vector_env = SpatialVectorEnv
