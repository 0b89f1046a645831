"""d3rlpy made aware of masks, from outside: factories and learnables registered with it, no fork.

d3rlpy knows no masks. Here they are a part of the observation tuple, and the networks give every
forbidden tile the score FORBIDDEN. Maxima, soft maxima and samples over all tiles are then those
over the allowed ones, of this state and of the next.

Importing this module needs the extra ``d3rlpy``. The losses that are special about the learnables
stand in bc.py, bcq.py and iql.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pmoss_agents.spatial.bc import imitation_loss
from pmoss_agents.spatial.bcq import constrained
from pmoss_agents.spatial.d3rlpy_iql import DiscreteIQLConfig
from pmoss_agents.spatial.d3rlpy_networks import (
    MaskedPolicy,
    MaskedQFunctionFactory,
    TileEncoderFactory,
    create_q_functions,
)
from pmoss_datasets.formats.d3rlpy import import_d3rlpy

import_d3rlpy()
from d3rlpy.algos.qlearning.bc import DiscreteBC, DiscreteBCConfig  # noqa: E402
from d3rlpy.algos.qlearning.bcq import DiscreteBCQ, DiscreteBCQConfig  # noqa: E402
from d3rlpy.algos.qlearning.torch.bc_impl import (  # noqa: E402
    DiscreteBCImpl,
    DiscreteBCModules,
)
from d3rlpy.algos.qlearning.torch.bcq_impl import (  # noqa: E402
    DiscreteBCQImpl,
    DiscreteBCQLoss,
    DiscreteBCQModules,
)
from d3rlpy.algos.qlearning.torch.dqn_impl import DoubleDQNImpl  # noqa: E402
from d3rlpy.base import register_learnable  # noqa: E402
from d3rlpy.models.torch import DiscreteImitationLoss  # noqa: E402

__all__ = [
    "DiscreteIQLConfig",
    "MaskedDiscreteBCConfig",
    "MaskedDiscreteBCQConfig",
    "MaskedQFunctionFactory",
    "TileEncoderFactory",
]


def _imitation(imitator: MaskedPolicy, x: Sequence[Tensor], action: Tensor, beta: float) -> Any:
    """imitation_loss() in the form that d3rlpy asks for."""
    allowed = imitator.scores.encoder.allowed(x)
    imitation, penalty = imitation_loss(imitator.scores(x), allowed, action)
    return DiscreteImitationLoss(
        loss=imitation + beta * penalty,
        imitation_loss=imitation,
        regularization_loss=beta * penalty,
    )


# ------------------------------------------------------------------------ behaviour cloning


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
        return _imitation(self._modules.imitator, obs_t, act_t, self._beta)


# --------------------------------------------------------- batch-constrained Q-learning


@dataclass
class MaskedDiscreteBCQConfig(DiscreteBCQConfig):
    """The fields of DiscreteBCQConfig.

    ``encoder_factory`` must be a TileEncoderFactory and ``q_func_factory`` a
    MaskedQFunctionFactory.
    """

    def create(self, device: Any = False, enable_ddp: bool = False) -> MaskedDiscreteBCQ:
        """The learnable."""
        return MaskedDiscreteBCQ(self, device, enable_ddp)

    @staticmethod
    def get_type() -> str:
        """The name in d3rlpy's registry."""
        return "pmoss_discrete_bcq"


class MaskedDiscreteBCQ(DiscreteBCQ):
    """Q-learning restricted to tiles that the data's policy might have chosen."""

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Builds Q-functions, imitator and optimiser."""
        config = self._config
        q_funcs, forwarder = create_q_functions(
            observation_shape, action_size, config, self._device
        )
        targ_q_funcs, targ_forwarder = create_q_functions(
            observation_shape, action_size, config, self._device
        )
        encoder = (
            q_funcs[0].encoder
            if config.share_encoder
            else config.encoder_factory.create(observation_shape)
        )
        imitator = MaskedPolicy(encoder).to(self._device)
        optim = config.optim_factory.create(
            [*q_funcs.named_modules(), *imitator.named_modules()],
            lr=config.learning_rate,
            compiled=False,
        )
        self._impl = MaskedDiscreteBCQImpl(
            observation_shape=observation_shape,
            action_size=action_size,
            modules=DiscreteBCQModules(
                q_funcs=q_funcs, targ_q_funcs=targ_q_funcs, imitator=imitator, optim=optim
            ),
            q_func_forwarder=forwarder,
            targ_q_func_forwarder=targ_forwarder,
            target_update_interval=config.target_update_interval,
            gamma=config.gamma,
            action_flexibility=config.action_flexibility,
            beta=config.beta,
            compiled=False,
            device=self._device,
        )


class MaskedDiscreteBCQImpl(DiscreteBCQImpl):
    """The loss and the policy of MaskedDiscreteBCQ."""

    def compute_loss(self, batch: Any, q_tpn: Tensor) -> Any:
        """Double-DQN error plus imitation_loss()."""
        td_loss = DoubleDQNImpl.compute_loss(self, batch, q_tpn).loss
        imitation = _imitation(
            self._modules.imitator, batch.observations, batch.actions, self._beta
        ).loss
        return DiscreteBCQLoss(loss=td_loss + imitation, td_loss=td_loss, imitator_loss=imitation)

    def inner_predict_best_action(self, x: Sequence[Tensor]) -> Tensor:
        """See constrained().

        d3rlpy lifts all values by the least one before it multiplies them by its own mask. The
        least one would be FORBIDDEN, beside which no float32 can tell two values apart.
        """
        scores = self._modules.imitator.scores(x)
        values = self._q_func_forwarder.compute_expected_q(x)
        return constrained(values, scores, math.log(self._action_flexibility)).argmax(dim=1)


register_learnable(MaskedDiscreteBCConfig)
register_learnable(MaskedDiscreteBCQConfig)
