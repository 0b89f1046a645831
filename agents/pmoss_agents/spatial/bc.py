"""Behaviour cloning: does what the data's policies did, well or badly.

d3rlpy's DiscreteBC with a masked imitator, whose loss is

    -log p(action of the data) + beta (mean square of the allowed tiles' scores).

The policy takes the likeliest of the allowed tiles.

"%BC" clones the best x % of the episodes (Chen et al., Decision Transformer, NeurIPS 2021, section
5.2): the plainest way to learn more from good episodes than from bad ones, and what any offline
learner has to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.pytorch import Tensor
from pmoss_agents.spatial.d3rlpy_agent import Builder, D3rlpyAgent, ImitationConfig, Policy


@dataclass(frozen=True)
class Config(ImitationConfig):
    """Settings of behaviour cloning, beside those of ImitationConfig."""

    agent: ClassVar[str] = "bc"
    BOUNDS: ClassVar = {"beta": "[0, inf)"}

    beta: float = 0.0  # weight of the penalty on large scores, the mean of their squares


@dataclass(frozen=True)
class PercentileConfig(Config):
    """Settings of behaviour cloning; ``keep_best`` is x / 100, by the return of ``reward``."""

    agent: ClassVar[str] = "percentile-bc"

    keep_best: float = 0.1


def imitation_loss(
    policy: Policy, observation: Sequence[Tensor], actions: Tensor
) -> tuple[Tensor, Tensor]:
    """Cross-entropy over the allowed tiles, and the mean square of their scores.

    Forbidden tiles are left out of the mean: FORBIDDEN squared would drown all else.

    Args:
        observation: of B states, arrays in the order of KEYS.
        actions: (B, 1) tiles that the data's policy chose.
    """
    scores, allowed = policy.scores(observation), policy.scores.encoder.allowed(observation)
    log_odds = scores.log_softmax(dim=1).gather(1, actions.long().view(-1, 1))
    penalty = (scores * allowed).square().sum() / allowed.sum()
    return -log_odds.mean(), penalty


class BehaviourCloning(D3rlpyAgent):
    """Behaviour cloning through d3rlpy, masked."""

    name = "bc"
    Config: ClassVar[type[Config]] = Config
    NETWORKS: ClassVar = {"imitator": ("imitator.scores", False)}

    def _new_learner(self, build: Builder) -> Any:
        from d3rlpy.algos.qlearning.torch.bc_impl import DiscreteBCImpl, DiscreteBCModules
        from d3rlpy.models.torch import DiscreteImitationLoss

        class Masked(DiscreteBCImpl):
            def compute_loss(self, obs_t: Sequence[Tensor], act_t: Tensor) -> Any:
                loss, penalty = imitation_loss(self._modules.imitator, obs_t, act_t)
                penalty = self._beta * penalty
                return DiscreteImitationLoss(
                    loss=loss + penalty, imitation_loss=loss, regularization_loss=penalty
                )

        imitator = build.policy()
        modules = DiscreteBCModules(optim=build.optimiser(imitator), imitator=imitator)
        return Masked(modules=modules, beta=self.config.beta, **build.common)


class PercentileBC(BehaviourCloning):
    """Behaviour cloning of the best episodes."""

    name = "percentile-bc"
    Config = PercentileConfig
