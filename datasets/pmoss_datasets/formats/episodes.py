"""What an episode is worth, with the file and the episode in what is refused."""

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
    of: Callable[[Any, str], Float64Array] | None = None,
) -> Float64Array:
    """(T,) float64 of one episode.

    Args:
        dataset: that holds it.
        number: its position.
        mode: of the rewards.
        of: ``rewards_of`` or ``returns_to_go`` of the dataset's domain; the former if None.

    Raises:
        UnknownNameError: another mode.
        DatasetError: the episode does not know them; names file, episode and field.
    """
    episode = dataset[number]
    try:
        return (of or dataset.domain.rewards_of)(episode, mode)
    except DatasetError as error:
        raise DatasetError(f"{dataset.path / DATA}: episode {number}: {error}") from error
