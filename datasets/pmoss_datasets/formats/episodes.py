"""Episodes by number, and their rewards, with errors that name the file and the episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pmoss_datasets.folder import DATA
from pmoss_datasets.schema import Array
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.types import Float64Array

#: Some episodes: their numbers, or a mask with true or false for each episode of the dataset.
Chosen = Sequence[int] | Array


def numbers_of(dataset: Dataset, episodes: Chosen | None) -> list[int]:
    """The numbers of some episodes.

    Args:
        episodes: None: all of them.

    Raises:
        DescriptionError: a mask of another length, or something else than numbers.
    """
    if episodes is None:
        return list(range(len(dataset)))
    given = np.asarray(episodes)
    if given.dtype == np.bool_ and given.shape == (len(dataset),):
        given = np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise DescriptionError(
            f"episodes: {given.dtype} of shape {given.shape}: must be a list of whole numbers, or "
            f"a mask of {len(dataset)} Booleans, one for each episode"
        )
    return [int(number) for number in given]


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
