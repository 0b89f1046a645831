"""Discrete implicit Q-learning as a learnable of d3rlpy, which lacks it; iql.py has its losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pmoss_agents.spatial.d3rlpy_networks import (
    MaskedPolicy,
    MaskedQFunctionFactory,
    TileEncoderFactory,
    create_q_functions,
)
from pmoss_agents.spatial.iql import policy_loss, value_loss
from pmoss_datasets.formats.d3rlpy import import_d3rlpy

import_d3rlpy()
from d3rlpy.algos.qlearning.base import QLearningAlgoBase, QLearningAlgoImplBase  # noqa: E402
from d3rlpy.algos.qlearning.torch.utility import DiscreteQFunctionMixin  # noqa: E402
from d3rlpy.base import LearnableConfig, register_learnable  # noqa: E402
from d3rlpy.constants import ActionSpace  # noqa: E402
from d3rlpy.models.builders import create_value_function  # noqa: E402
from d3rlpy.models.encoders import EncoderFactory, make_encoder_field  # noqa: E402
from d3rlpy.models.q_functions import QFunctionFactory, make_q_func_field  # noqa: E402
from d3rlpy.optimizers.optimizers import (  # noqa: E402
    OptimizerFactory,
    OptimizerWrapper,
    make_optimizer_field,
)
from d3rlpy.torch_utility import Modules, hard_sync, soft_sync  # noqa: E402


@dataclass
class DiscreteIQLConfig(LearnableConfig):
    """Settings of discrete IQL.

    Attributes:
        learning_rate: of all networks.
        optim_factory: of d3rlpy.
        encoder_factory: must be a TileEncoderFactory.
        q_func_factory: must be a MaskedQFunctionFactory.
        batch_size: transitions per update.
        gamma: discount per step.
        tau: share of the Q-function that its target takes over after each update.
        n_critics: Q-functions; the least value of their targets counts.
        expectile: of V, in (0, 1): 0.5 is the mean, 1 the largest value in the data.
        weight_temp: the policy's temperature, inverse: 0 is behaviour cloning.
        max_weight: the largest weight of an action.
    """

    learning_rate: float = 3e-4
    optim_factory: OptimizerFactory = make_optimizer_field()
    encoder_factory: EncoderFactory = make_encoder_field()
    q_func_factory: QFunctionFactory = make_q_func_field()
    batch_size: int = 256
    gamma: float = 0.99
    tau: float = 0.005
    n_critics: int = 2
    expectile: float = 0.7
    weight_temp: float = 3.0
    max_weight: float = 100.0

    def create(self, device: Any = False, enable_ddp: bool = False) -> DiscreteIQL:
        """The learnable."""
        return DiscreteIQL(self, device, enable_ddp)

    @staticmethod
    def get_type() -> str:
        """The name in d3rlpy's registry."""
        return "pmoss_discrete_iql"


@dataclass(frozen=True)
class DiscreteIQLModules(Modules):
    """Networks and optimiser, by the names of d3rlpy."""

    q_funcs: nn.ModuleList
    targ_q_funcs: nn.ModuleList
    value_func: nn.Module
    policy: MaskedPolicy
    optim: OptimizerWrapper


class DiscreteIQL(QLearningAlgoBase):
    """Implicit Q-learning over tiles."""

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Builds the networks and their optimiser."""
        config = self._config
        assert isinstance(config.encoder_factory, TileEncoderFactory)
        assert isinstance(config.q_func_factory, MaskedQFunctionFactory)
        q_funcs, forwarder = create_q_functions(
            observation_shape, action_size, config, self._device
        )
        targ_q_funcs, targ_forwarder = create_q_functions(
            observation_shape, action_size, config, self._device
        )
        value_func = create_value_function(
            observation_shape, config.encoder_factory, device=self._device, enable_ddp=False
        )
        policy = MaskedPolicy(config.encoder_factory.create(observation_shape)).to(self._device)
        networks = (q_funcs, value_func, policy)
        optim = config.optim_factory.create(
            [named for network in networks for named in network.named_modules()],
            lr=config.learning_rate,
            compiled=False,
        )
        modules = DiscreteIQLModules(
            q_funcs=q_funcs,
            targ_q_funcs=targ_q_funcs,
            value_func=value_func,
            policy=policy,
            optim=optim,
        )
        self._impl = DiscreteIQLImpl(
            observation_shape, action_size, modules, forwarder, targ_forwarder, config, self._device
        )

    def get_action_type(self) -> Any:
        """Tiles are discrete."""
        return ActionSpace.DISCRETE


class DiscreteIQLImpl(DiscreteQFunctionMixin, QLearningAlgoImplBase):
    """The losses of discrete IQL."""

    def __init__(
        self,
        observation_shape: Any,
        action_size: int,
        modules: DiscreteIQLModules,
        q_func_forwarder: Any,
        targ_q_func_forwarder: Any,
        config: DiscreteIQLConfig,
        device: str,
    ) -> None:
        super().__init__(observation_shape, action_size, modules, device)
        self._q_func_forwarder = q_func_forwarder
        self._targ_q_func_forwarder = targ_q_func_forwarder
        self._config = config
        hard_sync(modules.targ_q_funcs, modules.q_funcs)

    def inner_update(self, batch: Any, grad_step: int) -> dict[str, float]:
        """One step of all three networks."""
        config, modules = self._config, self._modules
        actions = batch.actions.long().view(-1)
        with torch.no_grad():
            q = self._targ_q_func_forwarder.compute_target(batch.observations, actions, "min")
            target = modules.value_func(batch.next_observations)
        advantage = q - modules.value_func(batch.observations)
        q_loss = self._q_func_forwarder.compute_error(
            observations=batch.observations,
            actions=batch.actions.long(),
            rewards=batch.rewards,
            target=target,
            terminals=batch.terminals,
            gamma=config.gamma**batch.intervals,
        )
        log_odds = modules.policy(batch.observations).log_prob(actions).view(-1, 1)
        parts = {
            "value_loss": value_loss(advantage, config.expectile),
            "q_loss": q_loss,
            "policy_loss": policy_loss(log_odds, advantage, config.weight_temp, config.max_weight),
        }
        loss = parts["value_loss"] + parts["q_loss"] + parts["policy_loss"]
        modules.optim.zero_grad()
        loss.backward()
        modules.optim.step()
        soft_sync(modules.targ_q_funcs, modules.q_funcs, config.tau)
        return {"loss": loss.item(), **{name: part.item() for name, part in parts.items()}}

    def inner_predict_best_action(self, x: Sequence[Tensor]) -> Tensor:
        """The policy's likeliest tile."""
        best: Tensor = self._modules.policy.scores(x).argmax(dim=1)
        return best

    def inner_sample_action(self, x: Sequence[Tensor]) -> Tensor:
        """A tile drawn from the policy."""
        drawn: Tensor = self._modules.policy(x).sample()
        return drawn

    @property
    def policy(self) -> MaskedPolicy:
        """For d3rlpy's copy_policy_from()."""
        policy: MaskedPolicy = self._modules.policy
        return policy

    @property
    def q_function(self) -> nn.ModuleList:
        """For d3rlpy's copy_q_function_from()."""
        functions: nn.ModuleList = self._modules.q_funcs
        return functions


register_learnable(DiscreteIQLConfig)
