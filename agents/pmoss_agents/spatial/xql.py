"""Extreme Q-learning: implicit Q-learning whose value is a soft maximum.

Garg et al., Extreme Q-Learning: MaxEnt RL without Entropy, ICLR 2023, with a categorical policy.
All is as in ``iql``, but V is fitted by Gumbel regression. Its minimum is

    V(s) = beta log E[exp(Q(s, a) / beta)]

over the data's own actions. The policy clones these actions with weights
exp((Q(s, a) - V(s)) / beta), so one temperature serves both. Rewards of Q are those of ``n_steps``
steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pmoss_agents.pytorch import Tensor
from pmoss_agents.spatial import iql
from pmoss_agents.spatial.d3rlpy_agent import ValueConfig


@dataclass(frozen=True)
class Config(ValueConfig):
    """Settings of extreme Q-learning, beside those of ValueConfig."""

    agent: ClassVar[str] = "xql"
    BOUNDS: ClassVar = {
        "beta": "(0, inf)",
        "max_exponent": "(0, 80]",
        "max_weight": "(0, inf)",
        "tau": "(0, 1]",
    }

    beta: float = 0.3  # temperature: small ones take V to the best of the data's actions
    max_exponent: float = 7.0  # of exp(advantage / beta); beyond it the loss of V is linear
    max_weight: float = 100.0  # the largest weight of an action
    tau: float = 0.01  # share of the Q-functions that their targets take over after each update
    critics: int = 2  # Q-functions; the least of their targets counts

    @property
    def weight_temp(self) -> float:
        """How much better actions weigh more, as iql's learner reads it."""
        return 1 / self.beta


def gumbel_loss(advantage: Tensor, beta: float, max_exponent: float) -> Tensor:
    """Gumbel regression of V (section 3 of the paper): E[exp(z) - z - 1], z = advantage / beta.

    As in the paper's code, the batch's largest exponent divides the loss: large
    advantages then change its scale, not its minimum. Beyond ``max_exponent`` the loss follows its
    tangent, so that V is still pulled where all Q lie far above it.

    Args:
        advantage: (B, 1) Q(s, a) - V(s), with a gradient for V alone.
    """
    z = advantage / beta
    clipped = z.clamp(max=max_exponent)
    largest = clipped.detach().amax().clamp(min=-1.0)
    scaled = (clipped - largest).exp() * (1 + (z - clipped))
    return (scaled - (z + 1) * (-largest).exp()).mean()


class Learner(iql.Learner):
    """Updates of implicit Q-learning, with another loss of V."""

    def _value_loss(self, advantage: Tensor) -> Tensor:
        return gumbel_loss(advantage, self._config.beta, self._config.max_exponent)


class XQL(iql.IQL):
    """Discrete extreme Q-learning, masked."""

    name = "xql"
    Config = Config
    LEARNER = Learner
