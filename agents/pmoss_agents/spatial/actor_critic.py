"""What actor-critics share: two critics with targets, a policy that learns every few updates.

An algorithm has its two losses in a file of its own: ``rebrac`` and ``cdqac``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.pytorch import Tensor, nn
from pmoss_agents.spatial.d3rlpy_agent import D3rlpyAgent, ValueConfig


@dataclass(frozen=True)
class ActorCriticConfig(ValueConfig):
    """Settings of actor-critics, beside those of ValueConfig."""

    BOUNDS: ClassVar = {"tau": "(0, 1]"}

    critics: int = 2  # Q-functions; the least of their values counts
    tau: float = 0.005  # share of the Q-functions that their targets take over after each update
    policy_delay: int = 2  # updates of the Q-functions for one of the policy


@dataclass(frozen=True)
class Modules:
    """Networks and optimiser, by the names of d3rlpy."""

    q_funcs: nn.ModuleList
    targ_q_funcs: nn.ModuleList
    policy: Any
    optim: Any


class Learner(ABC):
    """All networks, and an update of them."""

    def __init__(self, config: Any, modules: Modules) -> None:
        self.config, self.modules = config, modules
        modules.targ_q_funcs.load_state_dict(modules.q_funcs.state_dict())

    @abstractmethod
    def critic_losses(self, batch: Any) -> dict[str, Tensor]:
        """() losses of the Q-functions by name, to be added up; ``batch`` is d3rlpy's."""

    @abstractmethod
    def policy_losses(self, batch: Any) -> dict[str, Tensor]:
        """() losses of the policy by name, without a gradient for the Q-functions."""

    def update(self, batch: Any, number: int) -> dict[str, float]:
        """One gradient step of the Q-functions, and now and then of the policy, too."""
        from d3rlpy.torch_utility import soft_sync

        modules = self.modules
        losses = self.critic_losses(batch)
        if number % self.config.policy_delay == 0:
            losses |= self.policy_losses(batch)
        loss = sum(losses.values(), start=next(iter(losses.values())).new_zeros(()))
        # A policy without a gradient stays as it is; with one of zeros it would drift on.
        modules.optim.optim.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        modules.optim.step()
        soft_sync(modules.targ_q_funcs, modules.q_funcs, self.config.tau)
        return {"loss": loss.item(), **{name: part.item() for name, part in losses.items()}}


class ActorCritic(D3rlpyAgent):
    """An agent that takes the tile which its policy finds likeliest."""

    NETWORKS: ClassVar = {"policy": ("policy.scores", False)}
