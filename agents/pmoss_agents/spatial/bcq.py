"""Batch-constrained Q-learning: the best value among the tiles that the data might have chosen.

Fujimoto et al., Benchmarking Batch Deep Reinforcement Learning Algorithms, 2019: d3rlpy's
DiscreteBCQ, masked. Its loss is that of a double DQN (Huber's loss of the temporal difference) and
that of behaviour cloning. The policy takes the highest Q among the tiles that the imitator finds at
least ``threshold`` times as likely as the likeliest one. Rewards are those of ``n_steps`` steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.pytorch import Tensor
from pmoss_agents.spatial.bc import imitation_loss
from pmoss_agents.spatial.d3rlpy_agent import Builder, D3rlpyAgent, ValueConfig
from pmoss_agents.spatial.encoders import FORBIDDEN


@dataclass(frozen=True)
class Config(ValueConfig):
    """Settings of batch-constrained Q-learning, beside those of ValueConfig."""

    agent: ClassVar[str] = "bcq"
    BOUNDS: ClassVar = {"threshold": "(0, 1)", "beta": "[0, inf)"}

    threshold: float = 0.3  # odds, relative to the likeliest tile, below which a tile is left out
    beta: float = 0.0  # weight of the penalty on large scores of the imitator
    target_update_interval: int = 100  # updates between two copies of the Q-function to its target
    share_encoder: bool = True  # whether Q-function and imitator see through one encoder


class BCQ(D3rlpyAgent):
    """Batch-constrained Q-learning through d3rlpy, masked."""

    name = "bcq"
    Config = Config
    NETWORKS: ClassVar = {
        "q": ("q_funcs.0.scores", True),
        "imitator": ("imitator.scores", False),
    }

    def _new_learner(self, build: Builder) -> Any:
        from d3rlpy.algos.qlearning.torch.bcq_impl import (
            DiscreteBCQImpl,
            DiscreteBCQLoss,
            DiscreteBCQModules,
        )
        from d3rlpy.algos.qlearning.torch.dqn_impl import DoubleDQNImpl

        class Masked(DiscreteBCQImpl):
            def compute_loss(self, batch: Any, q_tpn: Tensor) -> Any:
                td_loss = DoubleDQNImpl.compute_loss(self, batch, q_tpn).loss
                imitation, penalty = imitation_loss(
                    self._modules.imitator, batch.observations, batch.actions
                )
                imitation = imitation + self._beta * penalty
                return DiscreteBCQLoss(
                    loss=td_loss + imitation, td_loss=td_loss, imitator_loss=imitation
                )

            def inner_predict_best_action(self, x: Sequence[Tensor]) -> Tensor:
                # d3rlpy lifts all values by the least one before it multiplies them by its mask.
                # That would be FORBIDDEN, beside which no float32 can tell two values apart.
                scores = self._modules.imitator.scores(x)
                values = self._q_func_forwarder.compute_expected_q(x)
                limit = math.log(self._action_flexibility)
                return constrained(values, scores, limit).argmax(dim=1)

        config = self.config
        q_functions, forwarder = build.q_functions()
        targets, of_targets = build.q_functions()
        shared: Any = q_functions[0]
        imitator = build.policy(shared.scores.encoder if config.share_encoder else None)
        return Masked(
            modules=DiscreteBCQModules(
                q_funcs=q_functions,
                targ_q_funcs=targets,
                imitator=imitator,
                optim=build.optimiser(q_functions, imitator),
            ),
            q_func_forwarder=forwarder,
            targ_q_func_forwarder=of_targets,
            target_update_interval=config.target_update_interval,
            gamma=config.gamma,
            action_flexibility=config.threshold,
            beta=config.beta,
            **build.common,
        )

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
