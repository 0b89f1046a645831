"""States of the spatial-scheduling environment as features of core tiles, for any network.

Raw counters and the topology (see ``inputs.py``) are mixed by small convolutions that keep the
grid: each tile ends with a feature vector of its own, and all of them together make one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy.typing as npt

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import F, Tensor, nn
from pmoss_agents.spatial.inputs import GROUPS, TileInputs
from pmoss_env.machines import Machine


class StateEncoder(nn.Module):
    """Turns states into per-tile features and one token each.

    The first layer mixes the inputs of each tile. The convolutions after it look at its neighbours
    on the grid (cores of one node are neighbours). The resolution is kept throughout.
    """

    def __init__(
        self,
        grid: tuple[int, int],
        counters: int,
        *,
        channels: int,
        width: int,
        inputs: Iterable[str] = GROUPS,
    ) -> None:
        """Makes an encoder.

        Args:
            grid: rows and columns of core tiles.
            counters: H, of the observation.
            channels: features per tile.
            width: size of a token.
            inputs: groups of inputs that it sees, see inputs.GROUPS.
        """
        super().__init__()
        self.grid = grid
        tiles = grid[0] * grid[1]
        self.inputs = TileInputs(tiles, counters, channels, inputs)
        self.near = nn.Conv2d(channels, channels, 3, padding=1)
        self.far = nn.Conv2d(channels, channels, 3, padding=1)
        self.token = nn.Linear(channels * tiles, width)

    def set_places(self, places: npt.ArrayLike) -> None:
        """Takes (2, tiles) places, see inputs.places_of()."""
        self.inputs.set_places(places)

    def set_up(self, samples: Mapping[str, Array], machine: Machine) -> None:
        """Takes the machine and the statistics of its inputs, see TileInputs.set_up()."""
        self.inputs.set_up(samples, machine)

    def forward(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Encodes B x n states.

        Args:
            state: ``view_mask``, ``position_mask`` (B, n, tiles), ``machine_view``
                (B, n, tiles, H), ``incumbent_view`` (B, 1, tiles, H), ``slice_view`` (B, n, H).

        Returns:
            (B, n, tiles, channels) features and (B, n, width) tokens.
        """
        mixed = F.relu(self.inputs(state))
        batch, steps, tiles, channels = mixed.shape
        # (B n, channels, rows, cols), with the channels innermost in memory.
        image = mixed.reshape(batch * steps, *self.grid, channels).permute(0, 3, 1, 2)
        image = image + self.far(F.relu(self.near(image)))
        features = image.permute(0, 2, 3, 1).reshape(batch, steps, tiles, channels)
        return features, self.token(features.flatten(2))
