"""A policy of sb3-contrib's MaskablePPO that scores core tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from pmoss_agents.spatial.sb3_agent import new_encoder, new_scores, parts_of


class TileActorCritic(MaskableActorCriticPolicy):
    """Two networks that share nothing: one scores tiles, one tells the value of a state.

    The masks are in the scores already, from the observation; those that MaskablePPO hands over
    are the same.
    """

    def __init__(
        self, *arguments: Any, config: Any, shapes: Sequence[Sequence[int]], **more: Any
    ) -> None:
        """Makes both networks.

        Args:
            *arguments: of the base class.
            config: sizes, see OnlineConfig.
            shapes: of FlatVecEnv.
            **more: of the base class.
        """
        self._sizes, self._shapes = config, shapes
        super().__init__(*arguments, **more)

    def _build(self, lr_schedule: Schedule) -> None:
        self.actor = new_scores(self._sizes, self._shapes, level=False)
        self.critic = new_encoder(self._sizes, self._shapes)
        self.value = nn.Linear(self._sizes.width, 1)
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
            action_logits=self.actor(parts_of(obs, self._shapes))
        )
        if action_masks is not None:
            odds.apply_masking(action_masks)
        return odds

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) values."""
        value: Tensor = self.value(self.critic(parts_of(obs, self._shapes)))
        return value
