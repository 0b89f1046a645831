"""Counters on the scale of networks: logarithms, standardised by what the training showed."""

from __future__ import annotations

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, nn, torch

#: Standard deviations beyond which a counter tells no more.
OUTLIER = 5.0


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
        standard: Tensor = torch.log1p(counters)
        # In place: these are the largest arrays of an update.
        return standard.sub_(self.mean).div_(self.std).clamp_(-OUTLIER, OUTLIER)

    def set(self, samples: Array) -> None:
        """Takes the statistics of (n, counters) samples."""
        logs = np.log1p(samples.astype(np.float64))
        std = logs.std(axis=0)
        # A counter that never changes says nothing; dividing by its rounding would make it loud.
        std[std <= 1e-6 * np.abs(logs).max(axis=0)] = 1.0
        self.mean.copy_(torch.from_numpy(logs.mean(axis=0)))
        self.std.copy_(torch.from_numpy(std))
