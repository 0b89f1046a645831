"""ReBRAC: an actor-critic that stays near the data, in the actor and in the critic.

Tarasov et al., Revisiting the Minimalist Approach to Offline Reinforcement Learning, NeurIPS 2023.
Without the critic's penalty it is TD3+BC (Fujimoto and Gu, A Minimalist Approach to Offline
Reinforcement Learning, NeurIPS 2021). Both are for continuous actions. Here the action is the
policy's probabilities pi(s), a point of the simplex, and Q is linear in it:

    Q(s, pi) = sum_a pi(a | s) Q(s, a).

An action of the data is a corner of the simplex, and the distance to it is the papers' square. No
noise smooths the target: the expectation over the policy does. Rewards are those of ``n_steps``
steps. The policy takes the likeliest of the allowed tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.pytorch import F, Tensor, torch
from pmoss_agents.spatial.actor_critic import (
    ActorCritic,
    ActorCriticConfig,
    Learner,
    Modules,
)
from pmoss_agents.spatial.d3rlpy_agent import Builder


@dataclass(frozen=True)
class Config(ActorCriticConfig):
    """Settings of ReBRAC, beside those of ActorCriticConfig."""

    agent: ClassVar[str] = "rebrac"
    BOUNDS: ClassVar = {"actor_beta": "[0, inf)", "critic_beta": "[0, inf)"}

    actor_beta: float = 1.0  # weight of the distance between the policy and the data's action
    critic_beta: float = 0.01  # the same for the next state, taken off the target; 0 is TD3+BC


def distance(odds: Tensor, actions: Tensor) -> Tensor:
    """(B, 1) squared distances between (B, tiles) probabilities and (B, 1) actions."""
    corners = F.one_hot(actions.long().view(-1), odds.shape[1])
    return (odds - corners).square().sum(1, keepdim=True)


def target(next_values: Tensor, odds: Tensor, next_actions: Tensor, beta: float) -> Tensor:
    """(B, 1) values of next states: the paper's equation for the critic, behind the reward.

    Args:
        next_values: (critics, B, tiles) of the targets.
        odds: (B, tiles) of the policy.
        next_actions: (B, 1) of the data.
    """
    expected = (odds * next_values).sum(2, keepdim=True).amin(0)
    return expected - beta * distance(odds, next_actions)


def actor_loss(values: Tensor, odds: Tensor, actions: Tensor, beta: float) -> Tensor:
    """The paper's equation for the actor; values are scaled by their mean size, as in TD3+BC.

    Args:
        values: (critics, B, tiles) without a gradient.
        odds: (B, tiles) of the policy, with one.
        actions: (B, 1) of the data.
    """
    expected = (odds * values).sum(2, keepdim=True).amin(0)
    scale = expected.detach().abs().mean().clamp(min=1e-6)
    return (beta * distance(odds, actions) - expected / scale).mean()


class Rebrac(Learner):
    """The two losses."""

    def _values(self, q_functions: Any, observation: Any) -> Tensor:
        return torch.stack([function(observation).q_value for function in q_functions])

    def _odds(self, observation: Any) -> Tensor:
        scores: Tensor = self.modules.policy.scores(observation)
        return scores.softmax(1)

    def critic_losses(self, batch: Any) -> dict[str, Tensor]:
        """See Learner.critic_losses."""
        config, modules = self.config, self.modules
        with torch.no_grad():
            later = target(
                self._values(modules.targ_q_funcs, batch.next_observations),
                self._odds(batch.next_observations),
                batch.next_actions,
                config.critic_beta,
            )
            goal = batch.rewards + config.gamma**batch.intervals * (1 - batch.terminals) * later
        values = self._values(modules.q_funcs, batch.observations)
        index = batch.actions.long().expand(len(values), -1, 1)
        own = values.gather(2, index)
        error = F.huber_loss(own, goal.expand_as(own), reduction="none")
        return {"q_loss": error.mean(1).sum()}

    def policy_losses(self, batch: Any) -> dict[str, Tensor]:
        """See Learner.policy_losses."""
        with torch.no_grad():
            values = self._values(self.modules.q_funcs, batch.observations)
        odds = self._odds(batch.observations)
        beta = self.config.actor_beta
        return {"policy_loss": actor_loss(values, odds, batch.actions, beta)}


class ReBRAC(ActorCritic):
    """Discrete ReBRAC, masked."""

    name = "rebrac"
    Config = Config

    def _new_learner(self, build: Builder) -> Learner:
        critics = self.config.critics
        q_functions, targets = build.q_functions(critics)[0], build.q_functions(critics)[0]
        policy = build.policy()
        optimiser = build.optimiser(q_functions, policy)
        return Rebrac(self.config, Modules(q_functions, targets, policy, optimiser))
