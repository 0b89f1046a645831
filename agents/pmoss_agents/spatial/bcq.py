"""Batch-constrained Q-learning: the best value among the tiles that the data might have chosen.

Fujimoto et al., Benchmarking Batch Deep Reinforcement Learning Algorithms, 2019: d3rlpy's
DiscreteBCQ, masked. Its loss is that of a double DQN plus that of behaviour cloning (bc.py). The
policy takes the highest Q among the tiles that the imitator finds at least ``threshold`` times as
likely as the likeliest one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pmoss_agents.configs import checker
from pmoss_agents.pytorch import Tensor
from pmoss_agents.spatial.d3rlpy_agent import D3rlpyAgent, ValueConfig
from pmoss_agents.spatial.tile_networks import FORBIDDEN


@dataclass(frozen=True)
class Config(ValueConfig):
    """Settings of batch-constrained Q-learning, beside those of ValueConfig.

    Attributes:
        threshold: odds, relative to the likeliest tile, below which a tile is left out.
        beta: weight of the penalty on large scores of the imitator.
        target_update_interval: updates between two copies of the Q-function to its target.
        share_encoder: whether Q-function and imitator see through one encoder.
    """

    agent: ClassVar[str] = "bcq"

    threshold: float = 0.3
    beta: float = 0.0
    target_update_interval: int = 100
    share_encoder: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check = checker(self.agent, self)
        check("threshold", 0 < self.threshold < 1, "lie in (0, 1)")
        check("beta", self.beta >= 0, "not be negative")


class BCQ(D3rlpyAgent):
    """Batch-constrained Q-learning through d3rlpy, masked."""

    name = "bcq"
    Config = Config
    LEARNER = "pmoss_agents.spatial.d3rlpy_masked:MaskedDiscreteBCQConfig"
    SETTINGS: ClassVar = {
        "action_flexibility": "threshold",
        "beta": "beta",
        "target_update_interval": "target_update_interval",
        "share_encoder": "share_encoder",
    }
    NETWORKS: ClassVar = {
        "q": ("q_funcs.0.scores", True),
        "imitator": ("imitator.scores", False),
    }

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        values = self.networks["q"](observation)
        scores = self.networks["imitator"](observation)
        return constrained(values, scores, math.log(self.config.threshold))


def constrained(values: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Values of the tiles that an imitator might choose, FORBIDDEN for all others.

    Args:
        values: (B, tiles) of the Q-function.
        scores: (B, tiles) of the imitator.
        threshold: how far the logarithm of a tile's odds may lie below that of the likeliest one.
    """
    behind = scores - scores.amax(dim=1, keepdim=True)
    return values.masked_fill(behind <= threshold, FORBIDDEN)
