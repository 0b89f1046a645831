"""MaskablePPO: proximal policy optimisation that never samples a forbidden tile.

Schulman et al., Proximal Policy Optimization Algorithms, 2017; Huang and Ontañón, A Closer Look at
Invalid Action Masking in Policy Gradient Algorithms, 2022. sb3-contrib's implementation, loss
included, on the native vector environment. The policy takes the likeliest tile.

An update plays ``rounds`` whole episodes in every sub-environment and learns from them. It depends
on the seed, its number and the weights alone. So a resumed run ends with the same weights as one
that was never stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_agents.spatial.sb3_agent import OnlineConfig, SB3Agent, parts_of


@dataclass(frozen=True)
class Config(OnlineConfig):
    """Settings of MaskablePPO, beside those of OnlineConfig."""

    agent: ClassVar[str] = "maskable-ppo"
    BOUNDS: ClassVar = {
        "gae_lambda": "[0, 1]",
        "entropy": "[0, inf)",
        **dict.fromkeys(("clip_range", "target_kl"), "(0, inf)"),
    }

    rounds: int = 1  # episodes of every sub-environment per update
    epochs: int = 4  # passes over the steps of an update
    gae_lambda: float = 0.95  # of generalised advantage estimation
    clip_range: float = 0.2  # how far the odds of an action may move in an update, as a share
    entropy: float = 0.0  # weight of the entropy bonus
    target_kl: float = 0.05  # an update ends early beyond 1.5 times this divergence


class MaskablePPOAgent(SB3Agent):
    """MaskablePPO on the native vector environment."""

    name = "maskable-ppo"
    Config = Config
    ACTOR = "actor"
    LEVEL = False

    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        from sb3_contrib import MaskablePPO
        from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

        config, shapes = self.config, env.shapes

        class TileActorCritic(MaskableActorCriticPolicy):
            """Two networks that share nothing: one scores tiles, one gives the value of a state.

            Masks are in the scores already, from the observation; MaskablePPO's are the same.
            """

            def _build(self, lr_schedule: Any) -> None:
                self._build_mlp_extractor()  # without layers: it passes observations on
                self.actor = config.scores(shapes, level=False)
                self.critic = config.encoder(shapes)
                self.value = nn.Linear(config.width, 1)
                self.action_net, self.value_net = self._score, self._evaluate  # type: ignore[assignment]
                self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1), eps=1e-5)

            def _score(self, observations: Tensor) -> Tensor:
                scores: Tensor = self.actor(parts_of(observations, shapes))
                return scores

            def _evaluate(self, observations: Tensor) -> Tensor:
                value: Tensor = self.value(self.critic(parts_of(observations, shapes)))
                return value

        return MaskablePPO(
            TileActorCritic,
            env,
            n_steps=config.rounds * self.task["slices"],
            policy_kwargs={"net_arch": []},
            n_epochs=config.epochs,
            gae_lambda=config.gae_lambda,
            clip_range=config.clip_range,
            ent_coef=config.entropy,
            target_kl=config.target_kl,
            **common,
        )

    def _steps_per_update(self) -> int:
        return int(self.config.rounds * super()._steps_per_update())
