"""What an episode is worth, with the file and the episode in what is refused."""

from __future__ import annotations

from collections.abc import Callable

from pmoss_datasets.folder import DATA
from pmoss_datasets.schema import Episode
from pmoss_datasets.spatial.expansion import rewards
from pmoss_datasets.storage import Dataset
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.errors import DatasetError
from pmoss_env.types import Float64Array


def worth(
    dataset: Dataset,
    number: int,
    mode: Reward,
    of: Callable[[Episode, Reward], Float64Array] = rewards,
) -> Float64Array:
    """(T,) float64 of one episode.

    Args:
        dataset: that holds it.
        number: its position.
        mode: of the rewards.
        of: ``rewards`` or ``returns_to_go``.

    Raises:
        UnknownNameError: another mode.
        DatasetError: the episode does not know them; names file, episode and field.
    """
    episode = dataset[number]
    try:
        return of(episode, mode)
    except DatasetError as error:
        raise DatasetError(f"{dataset.path / DATA}: episode {number}: {error}") from error
