"""The native vector environment in the form that Stable-Baselines3 takes; needs the extra online.

``PPO("MultiInputPolicy", SpatialVecEnv(8))``; sb3-contrib's ``MaskablePPO`` finds the masks.
"""

from __future__ import annotations

from typing import Any

from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.envs.stable_baselines import BatchVecEnv
from pmoss_env.envs.vector import SAME_STEP


class SpatialVecEnv(BatchVecEnv):
    """A ``SpatialVectorEnv``, see BatchVecEnv."""

    def __init__(self, num_envs: int = 1, *, threads: int = 1, **arguments: Any) -> None:
        """Makes the sub-environments.

        Args:
            num_envs: how many.
            threads: how many native threads step them.
            **arguments: of ``SpatialSchedulingEnv``.

        Raises:
            UnsupportedError: another backend than "analytic".
            DescriptionError: an impossible value.
        """
        super().__init__(
            SpatialVectorEnv(num_envs, threads=threads, autoreset_mode=SAME_STEP, **arguments)
        )
