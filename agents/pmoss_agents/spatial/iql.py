"""Implicit Q-learning: never asks for the value of an action that the data do not hold.

Kostrikov et al., ICLR 2022, with a categorical policy: d3rlpy_masked/discrete_iql.py has the
losses, as a learnable of d3rlpy, which itself knows the continuous form only. The policy takes
the likeliest of the allowed tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from pmoss_agents.base import checker
from pmoss_agents.spatial.d3rlpy_agent import D3rlpyAgent, ValueConfig


@dataclass(frozen=True)
class Config(ValueConfig):
    """Settings of implicit Q-learning, beside those of ValueConfig.

    Attributes:
        expectile: of the state's value, in (0, 1): 0.5 is the mean of the data's actions.
        weight_temp: how much better actions weigh more; 0 is behaviour cloning.
        max_weight: the largest weight of an action.
        tau: share of the Q-functions that their targets take over after each update.
        critics: Q-functions; the least of their targets counts.
    """

    agent: ClassVar[str] = "iql"

    expectile: float = 0.8
    weight_temp: float = 3.0
    max_weight: float = 100.0
    tau: float = 0.01
    critics: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check = checker(self.agent, self)
        check("expectile", 0 < self.expectile < 1, "lie in (0, 1)")
        check("weight_temp", self.weight_temp >= 0, "not be negative")
        check("max_weight", self.max_weight > 0, "be above 0")
        check("tau", 0 < self.tau <= 1, "lie in (0, 1]")


class IQL(D3rlpyAgent):
    """Discrete implicit Q-learning as a learnable of d3rlpy, masked."""

    name = "iql"
    Config = Config
    NETWORKS: ClassVar = {"policy": ("policy.scores", False)}

    def _learner_config(self, common: dict[str, Any]) -> Any:
        from pmoss_agents.spatial.d3rlpy_masked.discrete_iql import DiscreteIQLConfig

        config = self.config
        return DiscreteIQLConfig(
            **common,
            tau=config.tau,
            n_critics=config.critics,
            expectile=config.expectile,
            weight_temp=config.weight_temp,
            max_weight=config.max_weight,
        )

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        scores: Tensor = self.networks["policy"](observation)
        return scores
