"""MaskablePPO: proximal policy optimisation that never samples a forbidden tile.

Schulman et al., Proximal Policy Optimization Algorithms, 2017; Huang and Ontañón, A Closer Look at
Invalid Action Masking in Policy Gradient Algorithms, 2022. sb3-contrib's implementation on the
native vector environment. The policy takes the likeliest tile.

An update plays ``rounds`` whole episodes in every sub-environment and learns from them. It depends
on the seed, its number and the weights alone. So a resumed run ends with the same weights as one
that was never stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.configs import checker
from pmoss_agents.sb3_learner import check_ppo, ppo_arguments
from pmoss_agents.spatial.sb3_agent import OnlineConfig, SB3Agent


@dataclass(frozen=True)
class Config(OnlineConfig):
    """Settings of MaskablePPO, beside those of OnlineConfig.

    Attributes:
        rounds: episodes of every sub-environment per update.
        epochs: passes over the steps of an update.
        gae_lambda: of generalised advantage estimation.
        clip_range: how far the odds of an action may move in an update, as a share.
        entropy: weight of the entropy bonus.
        target_kl: an update ends early beyond 1.5 times this divergence.
    """

    agent: ClassVar[str] = "maskable-ppo"

    rounds: int = 1
    epochs: int = 4
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    entropy: float = 0.0
    target_kl: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ppo(checker(self.agent, self), self)


class MaskablePPOAgent(SB3Agent):
    """MaskablePPO on the native vector environment."""

    name = "maskable-ppo"
    Config = Config
    ACTOR = "actor"
    LEVEL = False

    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        from sb3_contrib import MaskablePPO

        from pmoss_agents.spatial.sb3_masked import TileActorCritic

        n_steps = self.config.rounds * self.task["slices"]
        return MaskablePPO(
            TileActorCritic, env, n_steps=n_steps, **ppo_arguments(self.config), **common
        )

    def _steps_per_update(self) -> int:
        rounds: int = self.config.rounds
        return rounds * super()._steps_per_update()
