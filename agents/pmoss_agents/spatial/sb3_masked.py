"""Stable-Baselines3 made aware of masks and of core tiles: environment, policies, and a DQN.

Masks are a part of every observation, and the networks give forbidden tiles the score FORBIDDEN.
Importing this module needs the extra ``online``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3 import DQN
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.dqn.policies import DQNPolicy
from torch import Tensor, nn

from pmoss_agents.spatial.observations import KEYS, full_shapes, in_full
from pmoss_env.envs.spatial.stable_baselines import SpatialVecEnv

_MASK = KEYS.index("position_mask")


class FlatVecEnv(SpatialVecEnv):
    """A ``SpatialVecEnv`` with one vector per observation and scaled rewards.

    The vector holds the arrays of the observation in the order of KEYS: memories of
    Stable-Baselines3 know n-step returns of vectors only.

    Attributes:
        returns: of the episodes that ended since reset(), in the unit of the reward.
    """

    def __init__(self, scale: float, num_envs: int, **arguments: Any) -> None:
        """Makes the sub-environments.

        Args:
            scale: what rewards are divided by, Mq/s.
            num_envs: how many.
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


def parts_of(observation: Tensor, shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    """The arrays of (B, D) observations as FlatVecEnv gives them, in the order of KEYS."""
    parts = torch.split(observation, [math.prod(shape) for shape in shapes], dim=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]


class _OfTiles:
    """A policy that knows the sizes of its networks and the shapes of what they see."""

    def __init__(
        self, *arguments: Any, config: Any, shapes: Sequence[Sequence[int]], **more: Any
    ) -> None:
        """Makes the networks.

        Args:
            *arguments: of the base class.
            config: sizes, see TileConfig.
            shapes: of FlatVecEnv.
            **more: of the base class.
        """
        self.sizes, self.shapes = config, shapes
        super().__init__(*arguments, **more)


class TileActorCritic(_OfTiles, MaskableActorCriticPolicy):
    """Two networks that share nothing: one scores tiles, one tells the value of a state.

    The masks are in the scores already, from the observation; those that MaskablePPO hands over
    are the same.
    """

    def _build(self, lr_schedule: Schedule) -> None:
        self.actor = self.sizes.scores(self.shapes, level=False)
        self.critic = self.sizes.encoder(self.shapes)
        self.value = nn.Linear(self.sizes.width, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1), eps=1e-5)

    def forward(
        self,
        obs: Any,
        deterministic: bool = False,
        action_masks: np.ndarray[Any, Any] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, values and the logarithms of the actions' odds."""
        odds = self.get_distribution(obs, action_masks)
        actions = odds.get_actions(deterministic=deterministic)
        return actions, self.predict_values(obs), odds.log_prob(actions)

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, logarithms of the actions' odds, entropies."""
        odds = self.get_distribution(obs, action_masks)  # type: ignore[arg-type]
        return self.predict_values(obs), odds.log_prob(actions), odds.entropy()

    def get_distribution(
        self, obs: Any, action_masks: np.ndarray[Any, Any] | None = None
    ) -> MaskableDistribution:
        """Odds of the tiles."""
        odds = self.action_dist.proba_distribution(
            action_logits=self.actor(parts_of(obs, self.shapes))
        )
        if action_masks is not None:
            odds.apply_masking(action_masks)
        return odds

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) values."""
        value: Tensor = self.value(self.critic(parts_of(obs, self.shapes)))
        return value


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
            config: sizes, see TileConfig.
            shapes: of FlatVecEnv.
        """
        super().__init__(observation_space, action_space)
        self._shapes = shapes
        self.scores = config.scores(shapes, level=True)

    def forward(self, obs: Any) -> Tensor:
        """(B, tiles) values."""
        values: Tensor = self.scores(parts_of(obs, self._shapes))
        return values

    def _predict(self, observation: Any, deterministic: bool = True) -> Tensor:
        return self.forward(observation).argmax(dim=1)


class TileDQNPolicy(_OfTiles, DQNPolicy):
    """A DQNPolicy of TileQNetworks."""

    def make_q_net(self) -> Any:
        """A Q-network."""
        return TileQNetwork(self.observation_space, self.action_space, self.sizes, self.shapes)


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
