"""Behaviour cloning: does what the data's policies did, well or badly.

d3rlpy's DiscreteBC with a masked imitator, whose loss is

    -log p(action of the data) + beta (mean square of the allowed tiles' scores).

The policy takes the likeliest of the allowed tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pmoss_agents.configs import checker
from pmoss_agents.pytorch import Tensor
from pmoss_agents.spatial.d3rlpy_agent import D3rlpyAgent, ImitationConfig


@dataclass(frozen=True)
class Config(ImitationConfig):
    """Settings of behaviour cloning, beside those of ImitationConfig.

    Attributes:
        beta: weight of the penalty on large scores, the mean of their squares.
    """

    agent: ClassVar[str] = "bc"

    beta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checker(self.agent, self)("beta", self.beta >= 0, "not be negative")


class BehaviourCloning(D3rlpyAgent):
    """Behaviour cloning through d3rlpy, masked."""

    name = "bc"
    Config: ClassVar[type[Config]] = Config
    LEARNER = "pmoss_agents.spatial.d3rlpy_masked:MaskedDiscreteBCConfig"
    SETTINGS: ClassVar = {"beta": "beta"}
    NETWORKS: ClassVar = {"imitator": ("imitator.scores", False)}

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        scores: Tensor = self.networks["imitator"](observation)
        return scores


def imitation_loss(scores: Tensor, allowed: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy over the allowed tiles, and the mean square of their scores.

    Forbidden tiles are left out of the mean: FORBIDDEN squared would drown all else.

    Args:
        scores: (B, tiles) of the imitator, FORBIDDEN where a tile is not allowed.
        allowed: (B, tiles) 1 = allowed.
        actions: (B, 1) tiles that the data's policy chose.
    """
    log_odds = scores.log_softmax(dim=1).gather(1, actions.long().view(-1, 1))
    penalty = (scores * allowed).square().sum() / allowed.sum()
    return -log_odds.mean(), penalty
