"""Continual scheduling as MaskablePPO learns from it: environments with the past, and the policy.

Masks are a part of every observation, and the network gives what is forbidden the score FORBIDDEN.
Importing this module needs the extra ``online``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor

from pmoss_agents.agent import Array
from pmoss_agents.continual.ppo_network import (
    Past,
    RoundActor,
    RoundCritic,
    begins,
    nodes_of,
    shapes_of,
)
from pmoss_env.envs.continual.stable_baselines import ContinualVecEnv

_Parts = dict[str, Array]


class RoundsVecEnv(ContinualVecEnv):
    """A ``ContinualVecEnv`` that shows what Past sees, and scales rewards.

    Args:
        num_envs: how many.
        counters: how many are seen.
        usual: what an epoch pays in the mean; a reward is what it paid beyond that.
        scale: what rewards are divided by.
        **arguments: of ``ContinualVecEnv``.
    """

    def __init__(
        self, num_envs: int, *, counters: int, usual: float, scale: float, **arguments: Any
    ) -> None:
        super().__init__(num_envs, **arguments)
        first = self._envs.sub_environments()[0]
        nodes = nodes_of(first.machine)
        self._past = Past(num_envs, nodes, counters)
        self._usual, self._scale = np.float32(usual), np.float32(scale)
        boxes = shapes_of(first.slices, len(nodes), counters)
        self.observation_space = spaces.Dict(
            {key: spaces.Box(-np.inf, np.inf, shape, np.float32) for key, shape in boxes.items()}
        )

    def reset(self) -> _Parts:
        """Starts every episode, with the seeds set before."""
        self._past.forget(np.ones(self.num_envs, dtype=np.bool_))
        observations = super().reset()
        self._past.take(observations, begins(observations))
        return self._past.show(observations)

    def step_wait(
        self,
    ) -> tuple[_Parts, npt.NDArray[Any], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """One step of every sub-environment. Only a step that begins an epoch has a reward."""
        observations, rewards, ended, infos = super().step_wait()
        new = epoch = begins(observations)
        if ended.any():
            self._end(observations, ended, infos)
            new = ended  # the others were taken with the last epochs
        self._past.take(observations, new)
        paid = np.where(epoch, (rewards - self._usual) / self._scale, np.float32(0.0))
        return self._past.show(observations), paid.astype(np.float32), ended, infos

    def _end(
        self, observations: _Parts, ended: npt.NDArray[np.bool_], infos: list[dict[str, Any]]
    ) -> None:
        """Takes the epochs of this step, and shows the last ones of episodes that have ended."""
        last = {key: rows.copy() for key, rows in observations.items()}
        rows = ended.nonzero()[0].tolist()
        for i in rows:
            for key, value in infos[i]["terminal_observation"].items():
                last[key][i] = value
        self._past.take(last, begins(last))
        shown = self._past.show(last)
        for i in rows:
            infos[i]["terminal_observation"] = {key: part[i] for key, part in shown.items()}
        self._past.forget(ended)


class RoundsPolicy(MaskableActorCriticPolicy):
    """Two networks that share nothing: one scores moves, one tells the value of a state.

    The odds of a move are those of its slice, times those of the tile for that slice. Where all is
    left as it is for now, the tile has no odds. The masks are in the scores already, from the
    observation; those that MaskablePPO hands over are the same.
    """

    def __init__(
        self, *arguments: Any, nodes: Sequence[int], counters: int, width: int, **more: Any
    ) -> None:
        """Makes the networks.

        Args:
            *arguments: of the base class.
            nodes: see RoundActor.
            counters: likewise.
            width: likewise.
            **more: of the base class.
        """
        self.sizes = nodes, counters, width
        super().__init__(*arguments, **more)

    def _build(self, lr_schedule: Schedule) -> None:
        self.actor, self.critic = RoundActor(*self.sizes), RoundCritic(*self.sizes)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1), eps=1e-5)

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Drawn actions, values and the logarithms of the actions' odds."""
        slices, tokens = self.actor(obs)
        chosen = _drawn(slices)
        tiles = self.actor.tiles(obs, tokens, chosen)
        actions = torch.stack([chosen, _drawn(tiles)], 1)
        return actions, self.critic(obs), _odds_of(actions, slices, tiles)

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Values, logarithms of the actions' odds, entropies; of tiles, that for these slices."""
        actions = actions.long()
        slices, tokens = self.actor(obs)
        tiles = self.actor.tiles(obs, tokens, actions[:, 0])
        moves = 1.0 - slices[:, -1].exp()
        entropy = _entropy(slices) + moves * _entropy(tiles)
        return self.critic(obs), _odds_of(actions, slices, tiles), entropy

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) values."""
        values: Tensor = self.critic(obs)
        return values


def _drawn(odds: Tensor) -> Tensor:
    return torch.multinomial(odds.exp(), 1)[:, 0]


def _odds_of(actions: Tensor, slices: Tensor, tiles: Tensor) -> Tensor:
    chosen, tile = (part.unsqueeze(1) for part in actions.unbind(1))
    moves = chosen < slices.shape[1] - 1
    odds = slices.gather(1, chosen) + torch.where(moves, tiles.gather(1, tile), 0.0)
    return odds[:, 0]


def _entropy(odds: Tensor) -> Tensor:
    return -(odds.exp() * odds).sum(1)
