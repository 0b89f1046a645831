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

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_env.baselines.best_fit import SLACK
from pmoss_env.types import COUNTER_INDEX

_BUSY = COUNTER_INDEX["task_clock_us"]
_ELAPSED = COUNTER_INDEX["elapsed_us"]
_CYCLES = COUNTER_INDEX["cycles"]
_IN_MEMORY = COUNTER_INDEX["cycles_mem_any"]
_MISSES = COUNTER_INDEX["l1d_misses"]
#: Standard deviations beyond which a counter tells no more.
OUTLIER = 5.0
#: Channels that derived_channels() gives.
DERIVED = 9
#: Where derived_channels() stops telling loads apart, in units of a full core.
OVERLOAD = 3.0
#: A domain whose misses cost this many times more or less than all others' tells no more.
EXTREME = 8.0


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

    Attributes:
        domains: (tiles,) int64: tiles of one number are alike as to memory; -1: no worker, or
            not known yet.
    """

    domains: Tensor

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
        self.register_buffer("domains", torch.full((tiles,), -1, dtype=torch.int64))
        self.machine = Standardise(counters)
        self.incumbent = Standardise(counters)
        self.slice = Standardise(counters)
        inputs = 2 + 3 * counters + DERIVED * derived
        self.mix = nn.Conv2d(inputs, channels, 1)
        self.near = nn.Conv2d(channels, channels, 3, padding=1)
        self.far = nn.Conv2d(channels, channels, 3, padding=1)
        self.token = nn.Linear(channels * tiles, width)

    def set_domains(self, domains: npt.ArrayLike) -> None:
        """Takes (tiles,) domains, see Machine.domain_of_tile."""
        self.domains.copy_(torch.from_numpy(np.array(domains, dtype=np.int64)))

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
            mask = state["position_mask"]
            parts.append(derived_channels(machine, incumbent, slice_, mask, self.domains))
        dynamic = torch.cat(parts, dim=-1)
        # A 1 x 1 convolution is linear in its input channels. Parts that are the same for all
        # steps (incumbent) or all tiles (slice) are multiplied once and added.
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
    machine: Tensor, incumbent: Tensor, slice_: Tensor, position_mask: Tensor, domains: Tensor
) -> Tensor:
    """Plain ratios of counters that a small network would otherwise have to learn to divide.

    Times are foretold as by the baseline best-fit: outside memory as measured; in memory by the
    misses of the first level, times what one costs in the tile's domain; all of it longer on a
    core that loses time. Their unit is a full core: when all would end together if work could be
    cut at will.

    0. time that the slices placed on the tile so far will take, at most OVERLOAD;
    1. time that the next slice would take on an ordinary tile;
    2. how slow the tile was under the incumbent: elapsed time over busy time, minus 1;
    3. whether the tile ran anything under the incumbent, so that 2 is known;
    4. what the tile would come to if it took the next slice, at most OVERLOAD;
    5. how far 4 lies above the least occupied allowed tile, in units of the next slice's time, on
       a logarithmic scale that ends at a thousandth: small differences decide between tiles;
    6. what a miss costs in the tile's domain, over the mean, minus 1;
    7. whether the tile may take the next slice and would not be overfull;
    8. if so, how much more room that would leave than on the tile where it leaves least, on the
       scale of 5; else the end of the scale. Where all would be overfull, as 5.

    Args:
        machine: (B, n, tiles, H) counters of the slices placed.
        incumbent: (B, 1, tiles, H) counters under the incumbent.
        slice_: (B, n, H) counters of the next slice.
        position_mask: (B, n, tiles), 1 = allowed.
        domains: (tiles,) int64, see StateEncoder.

    Returns:
        (B, n, tiles, 9).
    """
    busy = incumbent[..., _BUSY]
    workers = (position_mask > 0) | (domains >= 0)
    # Without the incumbent's counters the whole is what was placed so far.
    whole = incumbent.sum(-2, keepdim=True)
    whole = torch.where(whole[..., _BUSY, None] > 0, whole, machine.sum(-2, keepdim=True))
    cost = _stalled(whole) / whole[..., _MISSES].clamp(min=1e-9)
    # What ran nothing is taken for ordinary.
    alike = (domains[:, None] == domains[None, :]).to(busy.dtype)
    spent, missed = (values @ alike for values in (_stalled(incumbent), incumbent[..., _MISSES]))
    dearness = torch.where(missed > 0, spent / missed.clamp(min=1e-9), cost)
    dearness = torch.where(cost > 0, dearness / cost.clamp(min=1e-9), 1.0)
    dearness = dearness.clamp(1 / EXTREME, EXTREME)
    ran = busy > 0
    slowness = torch.where(ran, incumbent[..., _ELAPSED] / busy.clamp(min=1e-9), 1.0)

    def time(counters: Tensor) -> Tensor:
        outside = counters[..., _BUSY] - _stalled(counters)
        return (outside + counters[..., _MISSES] * cost * dearness) * slowness

    pace = torch.where(workers, 1 / time(whole).clamp(min=1e-9), 0.0)
    unit = (1 / pace.sum(-1, keepdim=True).clamp(min=1e-9)).clamp(min=1e-9)
    placed = time(machine) / unit
    added = time(slice_.unsqueeze(-2)) / unit
    occupied = placed + added
    plain = (slice_[..., _BUSY].unsqueeze(-1) / unit).expand_as(placed)
    scale = plain.clamp(min=1e-4)
    allowed = position_mask > 0
    above = _above_least(occupied, allowed) / scale
    room = 1.0 + SLACK - occupied
    fits = (room >= 0) & allowed
    behind = torch.where(fits, _above_least(room, fits) / scale, OVERLOAD / scale)
    behind = torch.where(fits.any(-1, keepdim=True), behind, above)
    above, behind = torch.log(above + 1e-3), torch.log(behind + 1e-3)
    # Training holds few overloaded tiles: unbounded values would carry the network to where it
    # has learnt nothing, and one bad step would lead to the next.
    placed, occupied = placed.clamp(max=OVERLOAD), occupied.clamp(max=OVERLOAD)
    return torch.stack(
        [
            placed,
            plain,
            (slowness - 1).expand_as(placed),
            ran.to(placed.dtype).expand_as(placed),
            occupied,
            above,
            (dearness - 1).expand_as(placed),
            fits.to(placed.dtype),
            behind,
        ],
        dim=-1,
    )


def _above_least(values: Tensor, allowed: Tensor) -> Tensor:
    """(..., tiles) how far values lie above the least of those allowed, 0 below it."""
    least = values.masked_fill(~allowed, math.inf).amin(-1, keepdim=True)
    return (values - least).clamp(min=0)


def _stalled(counters: Tensor) -> Tensor:
    """(...) the part of the busy time in (..., H) counters that was spent in memory."""
    cycles = counters[..., _CYCLES]
    share = counters[..., _IN_MEMORY] / cycles.clamp(min=1e-9)
    return counters[..., _BUSY] * share.clamp(max=1.0)
