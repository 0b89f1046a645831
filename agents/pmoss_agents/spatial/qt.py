"""QT: a Decision Transformer that values guide, in learning and in acting.

Hu et al., Q-value Regularized Transformer for Offline Reinforcement Learning, ICML 2024. The
Decision Transformer clones what the data did for a return. Its loss here has two more parts:

- two critics learn Q(s, a) by rewards of several steps and the value of what the policy would do
  after them;
- the policy is pulled towards tiles of high Q.

In use it draws several tiles for the wanted return, and takes the one of the highest Q. The paper
proposes actions by several returns; here a policy over tiles is drawn from. Values are in standard
deviations of the returns. The critics see states of every ``n_steps``-th step of each episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial import decision_network
from pmoss_agents.spatial.decision_network import Model
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.spatial.encoders import FORBIDDEN, StateEncoder
from pmoss_agents.spatial.episodes import Episodes
from pmoss_agents.spatial.observations import Layout
from pmoss_agents.standardise import Standardise

#: What of a batch has one entry per step.
_PER_STEP = ("view_mask", "position_mask", "machine_view", "slice_view")


@dataclass(frozen=True)
class Config(decision_network.Config):
    """Settings of the Decision Transformer, and of the values that guide it."""

    agent: ClassVar[str] = "qt"
    BOUNDS: ClassVar = {"eta": "[0, inf)", "tau": "(0, 1]"}

    decoding: Literal["greedy", "sample"] = "sample"
    eta: float = 1.0  # weight of the values in the policy's loss
    n_steps: int = 16  # of a transition of the critics
    tau: float = 0.05  # share of the critics that their targets take over after each update
    proposals: int = 8  # tiles that are drawn; the one of the highest value is taken

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("decoding", self.decoding == "sample", "be 'sample'")


class Critic(nn.Module):
    """Values of all tiles at some steps of episodes."""

    def __init__(
        self, config: Config, grid: tuple[int, int], counters: int, meta: int, slices: int
    ) -> None:
        super().__init__()
        width, channels = config.width, config.channels
        self.states = StateEncoder(
            grid,
            counters,
            channels=channels,
            width=width,
            inputs=config.inputs,
            plain=config.encoder == "plain",
        )
        self.meta_standard = Standardise(meta)
        self.meta = nn.Linear(meta, width)
        self.places = nn.Embedding(slices, width)
        self.join = nn.Linear(width, width)
        self.pointer = nn.Linear(width, channels)
        self.level = nn.Linear(width, 1)
        # Untrained, all tiles are alike: none is favoured by chance.
        nn.init.zeros_(self.pointer.weight)
        nn.init.zeros_(self.pointer.bias)

    def forward(self, batch: Mapping[str, Tensor], steps: Tensor) -> Tensor:
        """(B, n, tiles) values, FORBIDDEN where the position mask is 0.

        Args:
            batch: a state's arrays with n steps (see StateEncoder), and ``meta`` (B, M).
            steps: (n,) int64, which ones they are.
        """
        features, token = self.states(batch)
        meta = self.meta(self.meta_standard(batch["meta"])).unsqueeze(1)
        joined = F.relu(self.join(F.relu(token + meta + self.places(steps))))
        values: Tensor = (features @ self.pointer(joined).unsqueeze(-1)).squeeze(-1)
        values = values + self.level(joined)
        return values.masked_fill(batch["position_mask"] == 0, FORBIDDEN)


class GuidedModel(Model):
    """A Decision Transformer's network, two critics and their targets."""

    def __init__(
        self, config: Config, grid: tuple[int, int], counters: int, meta: int, slices: int
    ) -> None:
        super().__init__(config, grid, counters, meta, slices)

        def pair() -> nn.ModuleList:
            return nn.ModuleList(Critic(config, grid, counters, meta, slices) for _ in range(2))

        self.critics, self.targets = pair(), pair()
        self.targets.load_state_dict(self.critics.state_dict())
        self.targets.requires_grad_(False)

    def set_up(self, parts: Sequence[tuple[Mapping[str, Any], Layout]], returns: Tensor) -> None:
        """See Model.set_up."""
        super().set_up(parts, returns)
        for critic in (*self.critics, *self.targets):
            assert isinstance(critic, Critic)
            critic.states.inputs.set_up(parts)
            critic.meta_standard.set(np.concatenate([samples["meta"] for samples, _ in parts]))


def goals(returns: Tensor, next_values: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(B, n) what Q is fitted to: rewards until the next of n states, and its value.

    The paper's target of several steps; rewards are differences of returns-to-go. Behind the last
    state all of its return is left.

    Args:
        returns: (B, n) returns-to-go.
        next_values: (B, n) expected values under the policy; the first ones are not needed.
        mean: () of all returns.
        std: () of all returns.
    """
    gained = (returns[:, :-1] - returns[:, 1:]) / std
    return torch.cat([gained + next_values[:, 1:], (returns[:, -1:] - mean) / std], 1)


def expected_values(scores: Tensor, values: Tensor) -> Tensor:
    """(B, n) sum_a pi(a | s) min_i Q_i(s, a).

    Args:
        scores: (B, n, tiles) of the policy.
        values: (critics, B, n, tiles).
    """
    return (scores.softmax(-1) * values.amin(0)).sum(-1)


def critic_loss(values: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
    """Huber's loss of the temporal difference, added up over the critics.

    Args:
        values: (critics, B, n, tiles).
        actions: (B, n) of the data.
        targets: (B, n) of goals().
    """
    index = actions.expand(len(values), *actions.shape).unsqueeze(-1)
    own = values.gather(-1, index).squeeze(-1)
    error = F.huber_loss(own, targets.expand_as(own), reduction="none")
    return error.flatten(1).mean(1).sum()


def guidance_loss(scores: Tensor, values: Tensor) -> Tensor:
    """Minus the policy's expected value, in units of its mean size (the paper's second term).

    Args:
        scores: (B, n, tiles) of the policy, with a gradient.
        values: (critics, B, n, tiles) without one.
    """
    expected = expected_values(scores, values)
    return -(expected / expected.detach().abs().mean().clamp(min=1e-6)).mean()


class QT(DecisionTransformer):
    """The agent; see the module's docstring."""

    name = "qt"
    Config = Config
    network: GuidedModel | None

    # ---- learning

    def _loss(self, batch: Mapping[str, Tensor], scores: Tensor, update: int) -> Tensor:
        """Cloning, and at every n_steps-th step the critics' loss and that of guidance."""
        model, config = self.network, self.config
        assert model is not None
        total = scores.shape[1]
        stride = min(config.n_steps, total)
        first = int(np.random.default_rng([config.seed, update, 2]).integers(stride))
        steps = torch.arange(first, total, stride, device=scores.device)
        part = dict(batch) | {name: batch[name][:, steps] for name in _PER_STEP}
        own, actions = scores[:, steps], batch["actions"][:, steps]
        values = torch.stack([critic(part, steps) for critic in model.critics])
        with torch.no_grad():
            later = torch.stack([target(part, steps) for target in model.targets])
            targets = goals(
                batch["returns"][:, steps],
                expected_values(own, later),
                model.returns_mean,
                model.returns_std,
            )
        loss: Tensor = super()._loss(batch, scores, update)
        loss = loss + config.eta * guidance_loss(own, values.detach())
        return loss + critic_loss(values, actions, targets)

    def _step(
        self, update: int, source: Episodes, model: Model, device: torch.device
    ) -> Callable[[], dict[str, float]]:
        """A gradient step, and then one of the targets towards the critics."""
        change = super()._step(update, source, model, device)
        assert isinstance(model, GuidedModel)
        pairs = list(zip(model.targets.parameters(), model.critics.parameters(), strict=True))

        def both() -> dict[str, float]:
            metrics = change()
            with torch.no_grad():
                for target, critic in pairs:
                    target.lerp_(critic, self.config.tau)
            return metrics

        return both

    # ---- acting

    def encoders(self) -> list[StateEncoder]:
        """See SpatialAgent.encoders; the critics choose, too."""
        model = self.network
        if not isinstance(model, GuidedModel):
            return []
        critics = [critic for critic in model.critics if isinstance(critic, Critic)]
        return [*super().encoders(), *(critic.states for critic in critics)]

    def _choose(self, scores: Tensor, state: Mapping[str, Tensor], step: int) -> int:
        """Of some tiles that are drawn, the one of the highest value."""
        model, config = self.network, self.config
        assert model is not None
        odds = torch.softmax(scores.double() / config.temperature, -1).numpy()
        drawn = self._rng.choice(odds.size, size=config.proposals, p=odds / odds.sum())
        where = torch.tensor([step])
        values = torch.stack([critic(state, where) for critic in model.critics]).amin(0)[0, 0]
        return int(drawn[int(values[torch.from_numpy(drawn)].argmax())])

    # ---- keeping

    def new_network(self) -> GuidedModel:
        """See NetworkAgent.new_network."""
        return self._make(GuidedModel)
