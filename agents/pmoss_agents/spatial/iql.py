"""Implicit Q-learning: never asks for the value of an action that the data do not hold.

Kostrikov et al., Offline Reinforcement Learning with Implicit Q-Learning, ICLR 2022, with a
categorical policy. Three networks learn at once:

- V(s) by expectile regression towards Q(s, a) of the data's own actions: an upper estimate of what
  the data can do, without ever asking for the value of an action that they do not hold;
- Q(s, a) by regression towards r + gamma V(s');
- the policy by cloning the data's actions with weights exp(temperature (Q(s, a) - V(s))).

Only the policy knows of masks: Q is asked for actions that were taken, V for no action. d3rlpy
itself knows the continuous form only. The policy takes the likeliest of the allowed tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pmoss_agents.configs import checker
from pmoss_agents.pytorch import Tensor, torch
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
    LEARNER = "pmoss_agents.spatial.d3rlpy_iql:DiscreteIQLConfig"
    SETTINGS: ClassVar = {
        "tau": "tau",
        "n_critics": "critics",
        "expectile": "expectile",
        "weight_temp": "weight_temp",
        "max_weight": "max_weight",
    }
    NETWORKS: ClassVar = {"policy": ("policy.scores", False)}

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        scores: Tensor = self.networks["policy"](observation)
        return scores


def value_loss(advantage: Tensor, expectile: float) -> Tensor:
    """Expectile regression of V: errors below Q weigh more than those above it.

    Args:
        advantage: (B, 1) Q(s, a) - V(s), with a gradient for V alone.
        expectile: in (0, 1).
    """
    side = torch.where(advantage.detach() < 0, 1 - expectile, expectile)
    return (side * advantage.square()).mean()


def policy_loss(
    log_odds: Tensor, advantage: Tensor, temperature: float, max_weight: float
) -> Tensor:
    """Cloning of the data's actions, the better the more.

    Args:
        log_odds: (B, 1) of the data's actions.
        advantage: (B, 1) Q(s, a) - V(s).
        temperature: inverse: 0 weighs all actions alike.
        max_weight: the largest weight.
    """
    weight = (temperature * advantage.detach()).exp().clamp(max=max_weight)
    return -(weight * log_odds).mean()
