"""Tile networks in the form that d3rlpy asks for: encoder, Q-function, policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.distributions import Categorical

from pmoss_agents.spatial.inputs import GROUPS
from pmoss_agents.spatial.tile_networks import TileEncoder, TileScores
from pmoss_datasets.formats.d3rlpy import import_d3rlpy

import_d3rlpy()
from d3rlpy.models.builders import create_discrete_q_function  # noqa: E402
from d3rlpy.models.encoders import EncoderFactory, register_encoder_factory  # noqa: E402
from d3rlpy.models.q_functions import QFunctionFactory, register_q_func_factory  # noqa: E402
from d3rlpy.models.torch import (  # noqa: E402
    DiscreteMeanQFunctionForwarder,
    DiscreteQFunction,
    QFunctionOutput,
)


@dataclass
class TileEncoderFactory(EncoderFactory):
    """Makes a TileEncoder for the observation tuples of ``to_d3rlpy``.

    Attributes:
        channels: features per tile.
        width: size of the token.
        inputs: groups of inputs, see inputs.GROUPS.
    """

    channels: int = 16
    width: int = 64
    inputs: tuple[str, ...] = GROUPS

    def create(self, observation_shape: Sequence[Sequence[int]]) -> TileEncoder:
        """The encoder for arrays of these shapes, in the order of the observation space."""
        return TileEncoder(
            observation_shape, channels=self.channels, width=self.width, inputs=self.inputs
        )

    @staticmethod
    def get_type() -> str:
        """The name in d3rlpy's registry."""
        return "pmoss_tiles"


class MaskedQFunction(DiscreteQFunction):
    """Values of all tiles, FORBIDDEN where the mask is 0."""

    def __init__(self, encoder: TileEncoder) -> None:
        super().__init__()
        self.scores = TileScores(encoder, level=True)

    def forward(self, x: Sequence[Tensor]) -> Any:
        """(B, tiles) values of B observations."""
        return QFunctionOutput(q_value=self.scores(x), quantiles=None, taus=None)

    @property
    def encoder(self) -> TileEncoder:
        """What d3rlpy may share with other networks."""
        return self.scores.encoder


@dataclass
class MaskedQFunctionFactory(QFunctionFactory):
    """Makes MaskedQFunctions; d3rlpy's own forwarder does the rest, mask and all."""

    def create_discrete(
        self, encoder: TileEncoder, hidden_size: int, action_size: int
    ) -> tuple[MaskedQFunction, Any]:
        """The Q-function and its forwarder.

        Raises:
            ValueError: the data were made with an action size that is not the grid's.
        """
        if action_size != encoder.tiles:
            raise ValueError(f"action_size = {action_size}, but the grid has {encoder.tiles} tiles")
        q_function = MaskedQFunction(encoder)
        return q_function, DiscreteMeanQFunctionForwarder(q_function, action_size)

    @staticmethod
    def get_type() -> str:
        """The name in d3rlpy's registry."""
        return "pmoss_masked"


def create_q_functions(
    observation_shape: Any, action_size: int, config: Any, device: str
) -> tuple[Any, Any]:
    """A learner's Q-functions, as many as its ``n_critics``, and their forwarder."""
    q_functions, forwarder = create_discrete_q_function(
        observation_shape,
        action_size,
        config.encoder_factory,
        config.q_func_factory,
        n_ensembles=config.n_critics,
        device=device,
        enable_ddp=False,
    )
    return q_functions, forwarder


class MaskedPolicy(nn.Module):
    """A distribution over the allowed tiles, in place of d3rlpy's CategoricalPolicy."""

    def __init__(self, encoder: TileEncoder) -> None:
        super().__init__()
        self.scores = TileScores(encoder, level=False)

    def forward(self, x: Sequence[Tensor]) -> Categorical:
        """The distribution at each of B observations."""
        return Categorical(logits=self.scores(x), validate_args=False)


register_encoder_factory(TileEncoderFactory)
register_q_func_factory(MaskedQFunctionFactory)
