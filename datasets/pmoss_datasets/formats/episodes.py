"""The rewards of an episode, with errors that name the file and the episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pmoss_datasets.folder import DATA
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import DatasetError
from pmoss_env.types import Float64Array


def worth(
    dataset: Dataset,
    number: int,
    mode: str,
    rewards_of: Callable[[Any, str], Float64Array] | None = None,
) -> Float64Array:
    """(T,) float64 of one episode.

    Args:
        rewards_of: such as ``returns_to_go``; None: that of the dataset's domain.

    Raises:
        DatasetError: the episode does not know them; names file, episode and field.
    """
    episode = dataset[number]
    try:
        return (rewards_of or dataset.domain.rewards_of)(episode, mode)
    except DatasetError as error:
        raise DatasetError(f"{dataset.path / DATA}: episode {number}: {error}") from error
