"""Behaviour cloning: does what the data's policies did, well or badly.

d3rlpy's DiscreteBC with a masked imitator. The policy takes the likeliest of the allowed tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from pmoss_agents.base import checker
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
    NETWORKS: ClassVar = {"imitator": ("imitator.scores", False)}

    def _learner_config(self, common: dict[str, Any]) -> Any:
        from pmoss_agents.spatial.d3rlpy_masked.discrete_bc import MaskedDiscreteBCConfig

        return MaskedDiscreteBCConfig(**common, beta=self.config.beta)

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        scores: Tensor = self.networks["imitator"](observation)
        return scores
