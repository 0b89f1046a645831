"""Conservative Q-learning: values that are kept low where the data say nothing.

Kumar et al., Conservative Q-Learning for Offline Reinforcement Learning, NeurIPS 2020, in its
discrete form: d3rlpy's DiscreteCQL, a double DQN with the penalty

    alpha (logsumexp_a Q(s, a) - Q(s, action of the data)),

its sum over the allowed tiles only. The policy takes the tile of the highest Q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pmoss_agents.configs import checker
from pmoss_agents.pytorch import Tensor
from pmoss_agents.spatial.d3rlpy_agent import D3rlpyAgent, ValueConfig


@dataclass(frozen=True)
class Config(ValueConfig):
    """Settings of conservative Q-learning, beside those of ValueConfig.

    Attributes:
        alpha: weight of the penalty; 0 is a double DQN.
        target_update_interval: updates between two copies of the Q-function to its target.
    """

    agent: ClassVar[str] = "cql"

    alpha: float = 1.0
    target_update_interval: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        checker(self.agent, self)("alpha", self.alpha >= 0, "not be negative")


class CQL(D3rlpyAgent):
    """Conservative Q-learning through d3rlpy, masked."""

    name = "cql"
    Config = Config
    LEARNER = "d3rlpy.algos:DiscreteCQLConfig"
    SETTINGS: ClassVar = {
        "alpha": "alpha",
        "target_update_interval": "target_update_interval",
    }
    NETWORKS: ClassVar = {"q": ("q_funcs.0.scores", True)}

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        values: Tensor = self.networks["q"](observation)
        return values
