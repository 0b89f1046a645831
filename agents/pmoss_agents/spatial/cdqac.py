"""CDQAC: a conservative quantile actor-critic that scores pairs of slice and core.

Van Remmerden, Bukhsh and Zhang, Generalizing Beyond Suboptimality: Offline Reinforcement Learning
Learns Effective Scheduling through Random Data, 2025 (arXiv 2509.10303): a Conservative Discrete
Quantile Actor-Critic for job shops, where a pair is one of machine and operation. Here the order of
the slices is given, so the pairs of a step are those of its slice and every core. One small network
scores each of them: none of its weights belongs to a place on the chip. The encoder before it, that
of the other learners, has such weights.

Each of two critics learns quantiles of the return, from rewards of ``n_steps`` steps. Its loss is
that of quantile regression, and the penalty of conservative Q-learning on the means. The policy
learns every few updates, from the means and with a bonus for its entropy. It takes the likeliest of
the allowed tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.actor_critic import (
    ActorCritic,
    ActorCriticConfig,
    Learner,
    Modules,
)
from pmoss_agents.spatial.d3rlpy_agent import Builder
from pmoss_agents.spatial.encoders import FORBIDDEN, Encoded, TileEncoder


class Pairs(nn.Module):
    """The same layers for every pair: what the tile shows, and what the whole chip shows."""

    def __init__(self, encoder: TileEncoder, outputs: int) -> None:
        super().__init__()
        self.tile = nn.Linear(encoder.features, encoder.width)
        self.chip = nn.Linear(encoder.width, encoder.width, bias=False)
        self.output = nn.Linear(encoder.width, outputs)
        # Untrained, all pairs are alike: no core is favoured by chance.
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, tiles, outputs) of B encoded observations."""
        hidden = F.relu(self.tile(encoded.features) + self.chip(encoded.token).unsqueeze(1))
        outputs: Tensor = self.output(hidden)
        return outputs


class PairPolicy(nn.Module):
    """A score of every pair, FORBIDDEN where the mask is 0; their softmax is the policy."""

    def __init__(self, encoder: TileEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.pairs = Pairs(encoder, 1)

    def forward(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, tiles) scores of B observations, arrays in the order of KEYS."""
        encoded = self.encoder.encode(observation)
        scores: Tensor = self.pairs(encoded).squeeze(2)
        return scores.masked_fill(encoded.allowed == 0, FORBIDDEN)


class PairQuantiles(nn.Module):
    """Quantiles of every pair's return, as a dueling network has them.

    Those of the state, and by how much those of the pair differ from the mean allowed pair: the
    paper's equation 6.
    """

    def __init__(self, encoder: TileEncoder, quantiles: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.state = nn.Linear(encoder.width, quantiles)
        self.pairs = Pairs(encoder, quantiles)

    def forward(self, observation: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """(B, tiles, quantiles), and (B, tiles) their means, FORBIDDEN where the mask is 0."""
        encoded = self.encoder.encode(observation)
        pairs, allowed = self.pairs(encoded), encoded.allowed.unsqueeze(2)
        usual = (pairs * allowed).sum(1, keepdim=True) / allowed.sum(1, keepdim=True).clamp(min=1)
        quantiles = self.state(encoded.token).unsqueeze(1) + pairs - usual
        return quantiles, quantiles.mean(2).masked_fill(encoded.allowed == 0, FORBIDDEN)


@dataclass(frozen=True)
class Config(ActorCriticConfig):
    """Settings of CDQAC, beside those of ActorCriticConfig; the defaults are the paper's."""

    agent: ClassVar[str] = "cdqac"
    BOUNDS: ClassVar = {"alpha": "[0, inf)", "entropy": "[0, inf)"}

    quantiles: int = 64  # of the return of each pair
    alpha: float = 0.05  # weight of the penalty of conservative Q-learning
    entropy: float = 0.001  # weight of the policy's entropy
    policy_delay: int = 4  # updates of the critics for one of the policy

    def scores(self, shapes: Sequence[Sequence[int]], *, level: bool) -> nn.Module:
        """A new policy; it has no level, see TileConfig.scores."""
        return PairPolicy(self.encoder(shapes))


def quantile_loss(own: Tensor, goal: Tensor) -> Tensor:
    """Quantile regression with Huber's loss (the paper's equation 1, kappa = 1).

    Dabney et al., Distributional Reinforcement Learning with Quantile Regression, AAAI 2018. The
    sum over own quantiles, the mean over those of the target and over the batch.

    Args:
        own: (B, N) quantiles, with a gradient.
        goal: (B, N) those of the target.
    """
    count = own.shape[1]
    shares = (torch.arange(count, device=own.device) + 0.5) / count
    error = goal.unsqueeze(1) - own.unsqueeze(2)
    weight = (shares.view(1, -1, 1) - (error.detach() < 0).float()).abs()
    huber = F.huber_loss(error, torch.zeros_like(error), reduction="none")
    return (weight * huber).sum(1).mean()


def conservative_loss(means: Tensor, actions: Tensor) -> Tensor:
    """The penalty of conservative Q-learning (the paper's equation 4).

    Args:
        means: (B, tiles) values, FORBIDDEN where the mask is 0.
        actions: (B, 1) of the data.
    """
    return (means.logsumexp(1, keepdim=True) - means.gather(1, actions)).mean()


def policy_loss(values: Tensor, scores: Tensor, entropy: float) -> Tensor:
    """Minus the policy's expected value and its entropy (the paper's equation 5).

    Args:
        values: (B, tiles) without a gradient.
        scores: (B, tiles) of the policy.
        entropy: weight of the entropy.
    """
    log_odds = scores.log_softmax(1)
    return -(log_odds.exp() * (values - entropy * log_odds)).sum(1).mean()


def least(quantiles: Tensor, means: Tensor) -> Tensor:
    """(B, tiles, N) quantiles of the critic with the lower mean, for each pair.

    Args:
        quantiles: (critics, B, tiles, N).
        means: (critics, B, tiles).
    """
    index = means.argmin(0)[None, ..., None].expand(1, *quantiles.shape[1:])
    return quantiles.gather(0, index)[0]


class Cdqac(Learner):
    """The two losses."""

    def critic_losses(self, batch: Any) -> dict[str, Tensor]:
        """See Learner.critic_losses."""
        config, modules = self.config, self.modules
        actions = batch.actions.long()
        with torch.no_grad():
            then = [target(batch.next_observations) for target in modules.targ_q_funcs]
            lower = least(*(torch.stack(parts) for parts in zip(*then, strict=True)))
            odds = modules.policy(batch.next_observations).softmax(1)
            later = (odds.unsqueeze(2) * lower).sum(1)
            goal = batch.rewards + config.gamma**batch.intervals * (1 - batch.terminals) * later
        losses = {"quantile_loss": goal.new_zeros(()), "conservative_loss": goal.new_zeros(())}
        for critic in modules.q_funcs:
            quantiles, means = critic(batch.observations)
            index = actions.unsqueeze(2).expand(-1, -1, quantiles.shape[2])
            own = quantiles.gather(1, index).squeeze(1)
            losses["quantile_loss"] += quantile_loss(own, goal)
            losses["conservative_loss"] += config.alpha * conservative_loss(means, actions)
        return losses

    def policy_losses(self, batch: Any) -> dict[str, Tensor]:
        """See Learner.policy_losses."""
        with torch.no_grad():
            each = [critic(batch.observations)[1] for critic in self.modules.q_funcs]
            values = torch.stack(each).amin(0)
        scores = self.modules.policy(batch.observations)
        return {"policy_loss": policy_loss(values, scores, self.config.entropy)}


class CDQAC(ActorCritic):
    """Conservative discrete quantile actor-critic over pairs, masked."""

    name = "cdqac"
    Config = Config
    NETWORKS: ClassVar = {"policy": ("policy", False)}

    def _new_learner(self, build: Builder) -> Learner:
        config = self.config
        common: dict[str, Any] = build.common
        shapes, device = common["observation_shape"], common["device"]

        def critics() -> nn.ModuleList:
            each = [
                PairQuantiles(build.create(shapes), config.quantiles) for _ in range(config.critics)
            ]
            return nn.ModuleList(each).to(device)

        q_functions, targets = critics(), critics()
        policy = config.scores(shapes, level=False).to(device)
        optimiser = build.optimiser(q_functions, policy)
        return Cdqac(config, Modules(q_functions, targets, policy, optimiser))
