"""d3rlpy's DiscreteBC with a masked imitator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pmoss_agents.spatial.d3rlpy_masked.networks import MaskedPolicy
from pmoss_datasets.formats.d3rlpy import import_d3rlpy

import_d3rlpy()
from d3rlpy.algos.qlearning.bc import DiscreteBC, DiscreteBCConfig  # noqa: E402
from d3rlpy.algos.qlearning.torch.bc_impl import (  # noqa: E402
    DiscreteBCImpl,
    DiscreteBCModules,
)
from d3rlpy.base import register_learnable  # noqa: E402
from d3rlpy.models.torch import DiscreteImitationLoss  # noqa: E402


def imitation_loss(imitator: MaskedPolicy, x: Sequence[Tensor], action: Tensor, beta: float) -> Any:
    """d3rlpy's imitation loss over the allowed tiles.

    Its penalty on large scores is the mean over them: FORBIDDEN squared would drown all else.
    """
    logits = imitator.scores(x)
    allowed = imitator.scores.encoder.allowed(x)
    log_odds = logits.log_softmax(dim=1).gather(1, action.long().view(-1, 1))
    penalty = (logits * allowed).square().sum() / allowed.sum()
    imitation = -log_odds.mean()
    return DiscreteImitationLoss(
        loss=imitation + beta * penalty,
        imitation_loss=imitation,
        regularization_loss=beta * penalty,
    )


@dataclass
class MaskedDiscreteBCConfig(DiscreteBCConfig):
    """The fields of DiscreteBCConfig; ``encoder_factory`` must be a TileEncoderFactory."""

    def create(self, device: Any = False, enable_ddp: bool = False) -> MaskedDiscreteBC:
        """The learnable."""
        return MaskedDiscreteBC(self, device, enable_ddp)

    @staticmethod
    def get_type() -> str:
        """The name in d3rlpy's registry."""
        return "pmoss_discrete_bc"


class MaskedDiscreteBC(DiscreteBC):
    """Behaviour cloning over the allowed tiles."""

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Builds imitator and optimiser."""
        config = self._config
        imitator = MaskedPolicy(config.encoder_factory.create(observation_shape))
        imitator.to(self._device)
        optim = config.optim_factory.create(
            imitator.named_modules(), lr=config.learning_rate, compiled=False
        )
        self._impl = MaskedDiscreteBCImpl(
            observation_shape=observation_shape,
            action_size=action_size,
            modules=DiscreteBCModules(optim=optim, imitator=imitator),
            beta=config.beta,
            compiled=False,
            device=self._device,
        )


class MaskedDiscreteBCImpl(DiscreteBCImpl):
    """The loss of MaskedDiscreteBC."""

    def compute_loss(self, obs_t: Sequence[Tensor], act_t: Tensor) -> Any:
        """See imitation_loss()."""
        return imitation_loss(self._modules.imitator, obs_t, act_t, self._beta)


register_learnable(MaskedDiscreteBCConfig)
