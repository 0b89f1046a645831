"""Implicit Q-learning: never asks for the value of an action that the data do not hold.

Kostrikov et al., Offline Reinforcement Learning with Implicit Q-Learning, ICLR 2022, with a
categorical policy. Three networks learn at once:

- V(s) by expectile regression towards Q(s, a) of the data's own actions: an upper estimate of what
  the data can do, without ever asking for the value of an action that they do not hold;
- Q(s, a) by regression towards r + gamma V(s'), with r of ``n_steps`` steps;
- the policy by cloning the data's actions with weights exp(temperature (Q(s, a) - V(s))).

Only the policy needs masks: Q is asked for actions that were taken, V for no action. d3rlpy has the
continuous form only: the networks, and the losses of V and of the policy, are ours. The loss of Q
and the optimiser are d3rlpy's. The policy takes the likeliest of the allowed tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_agents.spatial.d3rlpy_agent import Builder, D3rlpyAgent, Policy, ValueConfig


@dataclass(frozen=True)
class Config(ValueConfig):
    """Settings of implicit Q-learning, beside those of ValueConfig."""

    agent: ClassVar[str] = "iql"
    BOUNDS: ClassVar = {
        "expectile": "(0, 1)",
        "weight_temp": "[0, inf)",
        "max_weight": "(0, inf)",
        "tau": "(0, 1]",
    }

    expectile: float = 0.8  # of the state's value, in (0, 1): 0.5 is the mean of the data's actions
    weight_temp: float = 3.0  # how much better actions weigh more; 0 is behaviour cloning
    max_weight: float = 100.0  # the largest weight of an action
    tau: float = 0.01  # share of the Q-functions that their targets take over after each update
    critics: int = 2  # Q-functions; the least of their targets counts


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
    """
    weight = (temperature * advantage.detach()).exp().clamp(max=max_weight)
    return -(weight * log_odds).mean()


@dataclass(frozen=True)
class Modules:
    """Networks and optimiser, by the names of d3rlpy."""

    q_funcs: nn.ModuleList
    targ_q_funcs: nn.ModuleList
    value_func: nn.Module
    policy: Policy
    optim: Any


class Learner:
    """All networks, and an update of them; forwarders are d3rlpy's, of Q-functions and targets."""

    def __init__(self, config: Any, modules: Modules, forwarder: Any, of_targets: Any) -> None:
        self._config, self.modules = config, modules
        self._forwarder, self._of_targets = forwarder, of_targets
        modules.targ_q_funcs.load_state_dict(modules.q_funcs.state_dict())

    def _value_loss(self, advantage: Tensor) -> Tensor:
        """() the loss of V, whose gradient (B, 1) advantages hold."""
        return value_loss(advantage, self._config.expectile)

    def update(self, batch: Any, number: int) -> dict[str, float]:
        """One gradient step of all three networks; returns the losses."""
        from d3rlpy.torch_utility import soft_sync
        from torch.distributions import Categorical

        config, modules = self._config, self.modules
        actions = batch.actions.long()
        with torch.no_grad():
            q = self._of_targets.compute_target(batch.observations, actions.view(-1), "min")
            target = modules.value_func(batch.next_observations)
        advantage = q - modules.value_func(batch.observations)
        q_loss = self._forwarder.compute_error(
            observations=batch.observations,
            actions=actions,
            rewards=batch.rewards,
            target=target,
            terminals=batch.terminals,
            gamma=config.gamma**batch.intervals,
        )
        policy = Categorical(logits=modules.policy.scores(batch.observations), validate_args=False)
        log_odds: Tensor = policy.log_prob(actions.view(-1)).view(-1, 1)  # type: ignore[no-untyped-call]
        losses = {
            "value_loss": self._value_loss(advantage),
            "q_loss": q_loss,
            "policy_loss": policy_loss(log_odds, advantage, config.weight_temp, config.max_weight),
        }
        loss = losses["value_loss"] + losses["q_loss"] + losses["policy_loss"]
        modules.optim.zero_grad()
        loss.backward()
        modules.optim.step()
        soft_sync(modules.targ_q_funcs, modules.q_funcs, config.tau)
        return {"loss": loss.item(), **{name: part.item() for name, part in losses.items()}}


class IQL(D3rlpyAgent):
    """Discrete implicit Q-learning, masked."""

    name = "iql"
    Config: ClassVar[type[ValueConfig]] = Config
    NETWORKS: ClassVar = {"policy": ("policy.scores", False)}
    LEARNER: ClassVar[type[Learner]] = Learner

    def _new_learner(self, build: Builder) -> Learner:
        config = self.config
        q_functions, forwarder = build.q_functions(config.critics)
        targets, of_targets = build.q_functions(config.critics)
        value, policy = build.value_function(), build.policy()
        optimiser = build.optimiser(q_functions, value, policy)
        modules = Modules(q_functions, targets, value, policy, optimiser)
        return self.LEARNER(config, modules, forwarder, of_targets)
