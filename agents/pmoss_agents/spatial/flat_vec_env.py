"""The native vector environment as Stable-Baselines3 learns from it; needs the extra online."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_agents.spatial.observations import KEYS, full_shapes, in_full
from pmoss_env.envs.spatial.stable_baselines import SpatialVecEnv


class FlatVecEnv(SpatialVecEnv):
    """A ``SpatialVecEnv`` with one vector per observation and scaled rewards.

    The vector holds the arrays of the observation in the order of KEYS: memories of
    Stable-Baselines3 support n-step returns for vectors only.

    Attributes:
        shapes: of the arrays, in the order of KEYS.
        returns: of the episodes that ended since reset(), in the unit of the reward.
    """

    def __init__(self, scale: float, num_envs: int, **arguments: Any) -> None:
        """Makes the sub-environments.

        Args:
            scale: what rewards are divided by, Mq/s.
            **arguments: of ``SpatialVecEnv``.
        """
        self._scale = np.float32(scale)
        super().__init__(num_envs, **arguments)
        space: Any = self.observation_space
        self.shapes = full_shapes(space)
        size = sum(int(np.prod(shape)) for shape in self.shapes)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.returns: list[float] = []
        self._so_far = np.zeros(num_envs)

    def reset(self) -> npt.NDArray[np.float32]:  # type: ignore[override]
        """Starts every episode, with the seeds set before."""
        self.returns.clear()
        self._so_far[:] = 0.0
        return _flat(super().reset(), self.num_envs)

    def step_wait(  # type: ignore[override]
        self,
    ) -> tuple[
        npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[np.bool_], list[dict[str, Any]]
    ]:
        """One step of every sub-environment."""
        observations, rewards, ended, infos = super().step_wait()
        self._so_far += rewards
        self.returns += self._so_far[ended].tolist()
        self._so_far[ended] = 0.0
        for i in ended.nonzero()[0].tolist():
            infos[i]["terminal_observation"] = _flat(infos[i]["terminal_observation"], 1)[0]
        return _flat(observations, self.num_envs), rewards / self._scale, ended, infos


def _flat(observation: Any, count: int) -> npt.NDArray[np.float32]:
    if "slice_view" not in observation:
        observation = in_full(observation)
    parts = [observation[key].reshape(count, -1) for key in KEYS]
    return np.concatenate(parts, axis=1, dtype=np.float32)
