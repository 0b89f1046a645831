"""Scores of core tiles from one observation: the network of every agent that has no memory.

Plain PyTorch: what was trained through d3rlpy is used without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pmoss_agents.pytorch import F, Tensor, nn
from pmoss_agents.spatial.observations import KEYS
from pmoss_agents.spatial.state_encoder import StateEncoder
from pmoss_agents.standardise import Standardise

#: Score of a forbidden tile. Finite: an infinite one turns into NaN where a target is multiplied
#: by 0, as at the end of an episode.
FORBIDDEN = -1e9


class Encoded(NamedTuple):
    """What a TileEncoder makes of B observations.

    Attributes:
        token: (B, width) of the whole chip.
        features: (B, tiles, features) of each tile.
        allowed: (B, tiles) 1 = the tile may take the next slice.
    """

    token: Tensor
    features: Tensor
    allowed: Tensor


class TileEncoder(nn.Module):
    """The Decision Transformer's state encoder for single observations, with meta and slice."""

    def __init__(
        self, shapes: Sequence[Sequence[int]], *, channels: int, width: int, inputs: Iterable[str]
    ) -> None:
        """Makes an encoder.

        Args:
            shapes: of the observation's arrays, in the order of KEYS.
            channels: features per tile.
            width: size of the token.
            inputs: groups of inputs, see inputs.GROUPS.
        """
        super().__init__()
        by_key = dict(zip(KEYS, shapes, strict=True))
        rows, cols, counters = by_key["machine_view"]
        self.states = StateEncoder(
            (rows, cols), counters, channels=channels, width=width, inputs=inputs
        )
        self.tiles = rows * cols
        self.features = channels
        self.width = width
        self.meta_standard = Standardise(by_key["meta"][0])
        self.meta = nn.Linear(by_key["meta"][0], width)
        self.place = nn.Linear(1, width)
        self.join = nn.Linear(width, width)

    def encode(self, observation: Sequence[Tensor]) -> Encoded:
        """Encodes B observations, arrays in the order of KEYS with a leading batch axis."""
        part = dict(zip(KEYS, observation, strict=True))
        size = part["meta"].shape[0]
        tiles = {
            key: part[key].reshape(size, 1, self.tiles) for key in ("position_mask", "view_mask")
        }
        views = {
            key: part[key].reshape(size, 1, self.tiles, -1)
            for key in ("machine_view", "incumbent_view")
        }
        features, token = self.states(
            {**tiles, **views, "slice_view": part["slice_view"].unsqueeze(1)}
        )
        meta = self.meta(self.meta_standard(part["meta"]))
        joined = F.relu(token.squeeze(1) + meta + self.place(part["slice"]))
        return Encoded(F.relu(self.join(joined)), features.squeeze(1), self.allowed(observation))

    def allowed(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, tiles) 1 = the tile may take the next slice."""
        mask = observation[KEYS.index("position_mask")]
        return mask.reshape(mask.shape[0], self.tiles)

    def forward(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, width) tokens: what networks with one output per observation start from."""
        return self.encode(observation).token


class TileScores(nn.Module):
    """One score per tile, FORBIDDEN where the position mask is 0."""

    def __init__(self, encoder: TileEncoder, *, level: bool) -> None:
        """Makes a head on an encoder.

        Args:
            encoder: may be shared with other heads.
            level: also learn what all tiles have in common: values need it, a softmax does not
                see it.
        """
        super().__init__()
        self.encoder = encoder
        self.pointer = nn.Linear(encoder.width, encoder.features)
        self.plain = nn.Linear(encoder.width, encoder.tiles)
        self.level = nn.Linear(encoder.width, 1) if level else None
        # Begins with all tiles nearly alike, and as far from right as from left.
        for layer in (self.pointer, self.plain):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, tiles) scores of B observations, see TileEncoder.encode()."""
        token, features, allowed = self.encoder.encode(observation)
        pointed = (features @ self.pointer(token).unsqueeze(-1)).squeeze(-1)
        scores: Tensor = pointed + self.plain(token)
        if self.level is not None:
            scores = scores + self.level(token)
        return scores.masked_fill(allowed == 0, FORBIDDEN)
