"""MaskablePPO: proximal policy optimisation that never samples a forbidden tile.

Schulman et al., Proximal Policy Optimization Algorithms, 2017; Huang and Ontañón, A Closer Look at
Invalid Action Masking in Policy Gradient Algorithms, 2022. sb3-contrib's implementation on the
native vector environment. The policy takes the likeliest tile.

An update plays ``rounds`` whole episodes in every sub-environment and learns from them. It depends
on the seed, its number and the weights alone, so a run that is resumed from a checkpoint ends with
the same weights as one that was never stopped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.base import checker
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
        check = checker(self.agent, self)
        check("gae_lambda", 0 <= self.gae_lambda <= 1, "lie in [0, 1]")
        check("entropy", self.entropy >= 0, "not be negative")
        for name in ("clip_range", "target_kl"):
            check(name, getattr(self, name) > 0, "be above 0")


class MaskablePPOAgent(SB3Agent):
    """MaskablePPO on the native vector environment."""

    name = "maskable-ppo"
    Config = Config
    ACTOR = "actor"
    LEVEL = False

    def _new_model(self, env: Any) -> Any:
        from sb3_contrib import MaskablePPO

        from pmoss_agents.spatial.sb3_masked.actor_critic import TileActorCritic

        config: Config = self.config
        return MaskablePPO(
            TileActorCritic,
            env,
            learning_rate=config.learning_rate,
            n_steps=config.rounds * self.task["slices"],
            batch_size=config.batch_size,
            n_epochs=config.epochs,
            gamma=config.gamma,
            gae_lambda=config.gae_lambda,
            clip_range=config.clip_range,
            ent_coef=config.entropy,
            target_kl=config.target_kl,
            max_grad_norm=config.clip,
            policy_kwargs={"config": config, "shapes": env.shapes},
            device="cpu",
        )

    def _total_updates(self) -> int:
        config: Config = self.config
        slices: int = self.task["slices"]
        return math.ceil(config.steps / (config.envs * config.rounds * slices))

    def _update(self, model: Any, seed: int) -> dict[str, float]:
        config: Config = self.config
        model.env.seed(seed)
        model._last_obs = None  # so that learn() begins new episodes
        steps = config.envs * config.rounds * self.task["slices"]
        model.learn(steps, reset_num_timesteps=False)
        logged = model.logger.name_to_value
        return {"loss": float(logged["train/loss"])}
