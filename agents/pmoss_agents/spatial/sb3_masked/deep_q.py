"""Stable-Baselines3's DQN with masks: in the greedy action, in targets and in exploration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.dqn.policies import DQNPolicy
from torch import Tensor

from pmoss_agents.spatial.observations import KEYS
from pmoss_agents.spatial.sb3_agent import new_scores, parts_of

_MASK = KEYS.index("position_mask")


class TileQNetwork(BasePolicy):
    """Values of tiles; forbidden ones are so low that neither argmax nor max takes them."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        config: Any,
        shapes: Sequence[Sequence[int]],
    ) -> None:
        """Makes the network.

        Args:
            observation_space: of the environment.
            action_space: likewise.
            config: sizes, see OnlineConfig.
            shapes: of FlatVecEnv.
        """
        super().__init__(observation_space, action_space)
        self._shapes = shapes
        self.scores = new_scores(config, shapes, level=True)

    def forward(self, obs: Any) -> Tensor:
        """(B, tiles) values."""
        values: Tensor = self.scores(parts_of(obs, self._shapes))
        return values

    def _predict(self, observation: Any, deterministic: bool = True) -> Tensor:
        return self.forward(observation).argmax(dim=1)


class TileDQNPolicy(DQNPolicy):
    """A DQNPolicy of TileQNetworks."""

    shapes: Sequence[Sequence[int]]

    def __init__(
        self, *arguments: Any, config: Any, shapes: Sequence[Sequence[int]], **more: Any
    ) -> None:
        """Makes Q-network and target.

        Args:
            *arguments: of the base class.
            config: sizes, see OnlineConfig.
            shapes: of FlatVecEnv.
            **more: of the base class.
        """
        self._sizes, self.shapes = config, shapes
        super().__init__(*arguments, **more)

    def make_q_net(self) -> Any:
        """A Q-network."""
        return TileQNetwork(self.observation_space, self.action_space, self._sizes, self.shapes)


class MaskedDQN(DQN):
    """A DQN that explores among allowed tiles only."""

    policy: TileDQNPolicy

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        seen: Any = self._last_obs
        actions, _ = self.policy.predict(seen, deterministic=True)
        masks = parts_of(torch.from_numpy(seen), self.policy.shapes)[_MASK]
        allowed = masks.reshape(n_envs, -1).numpy() > 0
        # Stable-Baselines3 draws from this generator too; the agent seeds it and puts it back.
        chances = np.random.random((n_envs, allowed.shape[1] + 1))  # noqa: NPY002
        drawn = np.where(allowed, chances[:, 1:], -1.0).argmax(axis=1)
        actions = np.where(chances[:, 0] < self.exploration_rate, drawn, actions)
        return actions, actions
