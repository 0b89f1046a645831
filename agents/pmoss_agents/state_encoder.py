"""States of the spatial-scheduling environment as features of core tiles, for any network.

Counters are standardised, joined with a few plain ratios of them, and mixed by small convolutions
that keep the grid: each tile ends with a feature vector of its own, and all of them together make
one token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.errors import MissingExtraError
from pmoss_env.types import COUNTER_INDEX

try:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "agents") from error

_BUSY = COUNTER_INDEX["task_clock_us"]
_ELAPSED = COUNTER_INDEX["elapsed_us"]
#: Standard deviations beyond which a counter tells no more.
OUTLIER = 5.0
#: Channels that derived_channels() gives.
DERIVED = 6
#: Where derived_channels() stops telling loads apart, in units of the mean load.
OVERLOAD = 3.0


class Standardise(nn.Module):
    """Takes log(1 + x) of counters and standardises it with the training data's statistics."""

    mean: Tensor
    std: Tensor

    def __init__(self, counters: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(counters))
        self.register_buffer("std", torch.ones(counters))

    def forward(self, counters: Tensor) -> Tensor:
        """Maps (..., counters) to the same shape."""
        standard: Tensor = (torch.log1p(counters) - self.mean) / self.std
        return standard.clamp(-OUTLIER, OUTLIER)

    def set(self, samples: npt.NDArray[Any]) -> None:
        """Takes the statistics of (n, counters) samples."""
        logs = np.log1p(samples.astype(np.float64))
        std = logs.std(axis=0)
        # A counter that never changes says nothing; dividing by its rounding would make it loud.
        std[std <= 1e-6 * np.abs(logs).max(axis=0)] = 1.0
        self.mean.copy_(torch.from_numpy(logs.mean(axis=0)))
        self.std.copy_(torch.from_numpy(std))


class StateEncoder(nn.Module):
    """Turns states into per-tile features and one token each.

    The first convolution mixes the channels of each tile, the next two look at its neighbours
    on the grid (cores of one node are neighbours); the resolution is kept throughout.
    """

    def __init__(
        self, grid: tuple[int, int], counters: int, *, channels: int, width: int, derived: bool
    ) -> None:
        """Makes an encoder.

        Args:
            grid: rows and columns of core tiles.
            counters: H, of the observation.
            channels: features per tile.
            width: size of a token.
            derived: whether derived_channels() are among the inputs and features.
        """
        super().__init__()
        self.grid = grid
        self.derived = derived
        tiles = grid[0] * grid[1]
        self.machine = Standardise(counters)
        self.incumbent = Standardise(counters)
        self.slice = Standardise(counters)
        inputs = 2 + 3 * counters + DERIVED * derived
        self.mix = nn.Conv2d(inputs, channels, 1)
        self.near = nn.Conv2d(channels, channels, 3, padding=1)
        self.far = nn.Conv2d(channels, channels, 3, padding=1)
        self.token = nn.Linear(channels * tiles, width)

    def forward(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Encodes B x n states.

        Args:
            state: ``view_mask``, ``position_mask`` (B, n, tiles), ``machine_view``
                (B, n, tiles, H), ``incumbent_view`` (B, 1, tiles, H), ``slice_view`` (B, n, H).

        Returns:
            (B, n, tiles, channels + DERIVED) features, without DERIVED if they are switched off,
            and (B, n, width) tokens.
        """
        machine, incumbent, slice_ = (
            state[key] for key in ("machine_view", "incumbent_view", "slice_view")
        )
        batch, steps, tiles, counters = machine.shape
        parts = [
            state["view_mask"].unsqueeze(-1),
            state["position_mask"].unsqueeze(-1),
            self.machine(machine),
        ]
        if self.derived:
            parts.append(derived_channels(machine, incumbent, slice_, state["position_mask"]))
        dynamic = torch.cat(parts, dim=-1)
        # A 1 x 1 convolution is linear in its input channels, so the parts that are the same for
        # all steps (incumbent) or all tiles (slice) are multiplied once and added.
        weight = self.mix.weight[:, :, 0, 0]
        n = dynamic.shape[-1]
        mixed = dynamic @ weight[:, :n].T
        mixed = mixed + self.incumbent(incumbent) @ weight[:, n : n + counters].T
        of_slice = self.slice(slice_) @ weight[:, n + counters :].T
        assert self.mix.bias is not None
        mixed = F.relu(mixed + of_slice.unsqueeze(2) + self.mix.bias)
        # (B n, channels, rows, cols), with the channels innermost in memory.
        image = mixed.reshape(batch * steps, *self.grid, -1).permute(0, 3, 1, 2)
        image = image + self.far(F.relu(self.near(image)))
        features = image.permute(0, 2, 3, 1).reshape(batch, steps, tiles, -1)
        token = self.token(features.flatten(2))
        if self.derived:
            # The action head also sees the derived channels as they are: a score that is linear
            # in how occupied a tile is stays right beyond the states of the training data.
            features = torch.cat([features, parts[-1]], dim=-1)
        return features, token


def derived_channels(
    machine: Tensor, incumbent: Tensor, slice_: Tensor, position_mask: Tensor
) -> Tensor:
    """Plain ratios of counters that a small network would otherwise have to learn to divide.

    In units of the mean busy time per worker core under the incumbent:

    0. work placed on the tile so far, at most OVERLOAD;
    1. work of the next slice, the same on all tiles;
    2. how slow the tile was under the incumbent: elapsed time over busy time, minus 1;
    3. whether the tile ran anything under the incumbent, so that 2 is known;
    4. time that the tile would be occupied if it took the next slice: (0 + 1) times slowness, at
       most OVERLOAD;
    5. how far 4 lies above the least occupied allowed tile, in units of the next slice's work, on
       a logarithmic scale that ends at a thousandth: small differences decide between tiles.

    Args:
        machine: (B, n, tiles, H) counters of the slices placed.
        incumbent: (B, 1, tiles, H) counters under the incumbent.
        slice_: (B, n, H) counters of the next slice.
        position_mask: (B, n, tiles), 1 = allowed.

    Returns:
        (B, n, tiles, 6).
    """
    busy = incumbent[..., _BUSY]
    workers = position_mask.sum(-1, keepdim=True).clamp(min=1)
    total = busy.sum(-1, keepdim=True)
    # Without the incumbent's counters the unit is the mean work placed so far.
    total = torch.where(total > 0, total, machine[..., _BUSY].sum(-1, keepdim=True))
    unit = (total / workers).clamp(min=1e-9)
    ran = busy > 0
    slowness = torch.where(ran, incumbent[..., _ELAPSED] / busy.clamp(min=1e-9), 1.0)
    placed = machine[..., _BUSY] / unit
    added = (slice_[..., _BUSY].unsqueeze(-1) / unit).expand_as(placed)
    occupied = (placed + added) * slowness
    least = occupied.masked_fill(position_mask == 0, math.inf).amin(-1, keepdim=True)
    above = torch.log((occupied - least).clamp(min=0) / added.clamp(min=1e-4) + 1e-3)
    # Training holds few overloaded tiles: unbounded values would carry the network to where it
    # has learnt nothing, and one bad step would lead to the next.
    placed, occupied = placed.clamp(max=OVERLOAD), occupied.clamp(max=OVERLOAD)
    return torch.stack(
        [
            placed,
            added,
            (slowness - 1).expand_as(placed),
            ran.to(placed.dtype).expand_as(placed),
            occupied,
            above,
        ],
        dim=-1,
    )
