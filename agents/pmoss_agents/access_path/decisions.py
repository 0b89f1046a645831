"""What scans took, of either kind of data: calibrations, or recorded episodes."""

from __future__ import annotations

import numpy as np

from pmoss_datasets import Dataset
from pmoss_datasets.access_path.scans import AccessPathDataset
from pmoss_env.errors import DatasetError
from pmoss_env.types import Float64Array


def decisions(data: AccessPathDataset | Dataset) -> tuple[Float64Array, Float64Array]:
    """Features of scans, and what each took on every path.

    A calibration has tried every path of every scan. An episode has tried the one that was chosen.

    Args:
        data: one of both.

    Returns:
        (n, 5) features, and (n, P) microseconds that are NaN on paths that nobody tried.

    Raises:
        DatasetError: episodes of another domain.
    """
    if isinstance(data, AccessPathDataset):
        return data.pairs()
    if data.domain.name != "access-path":
        raise DatasetError(
            f"{data.path}: holds episodes of the domain {data.domain.name!r}: agents of "
            "access-path selection cannot learn from them"
        )
    features, times = [], []
    for episode in data:
        features.append(episode.observations["features"][: episode.steps])
        # What info told after a step is of the scan that the step ran.
        took = np.full((episode.steps, data.metadata.sizes["A"]), np.nan)
        took[np.arange(episode.steps), episode.actions] = episode.infos["run_time_us"][1:]
        times.append(took)
    return np.concatenate(features).astype(np.float64), np.concatenate(times)
