"""What learners take from a dataset: may it be learned from, which episodes, scales of inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pmoss_agents.agent import Array
from pmoss_datasets import Dataset
from pmoss_datasets.formats.episodes import worth
from pmoss_datasets.spatial.expansion import Expander
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.errors import DatasetError

if TYPE_CHECKING:
    from pmoss_datasets.formats import SequenceView

#: Episodes that statistics are taken from, and every how many steps of them.
SAMPLE, STRIDE = 64, 8


def check_learnable(dataset: Dataset, reward: Reward) -> None:
    """Refuses, before training, a dataset that would only teach nonsense.

    Args:
        dataset: what an agent was asked to learn from.
        reward: whose returns it will learn from.

    Raises:
        DatasetError: all actions are the same; a value is impossible (a tile that is forbidden, a
            counter or throughput that is not finite); a step has no mask; a reward is unknown.
            Names the episode.
    """
    actions = dataset.column("actions")
    if (actions == actions.flat[0]).all():
        raise DatasetError(
            f"{dataset.path}: actions: tile {actions.flat[0]} is the only one in all "
            f"{len(dataset)} episodes: there is nothing to learn"
        )
    expander = Expander(dataset)
    for number, episode in enumerate(dataset):
        masks = expander.masks(episode)
        if not masks.any(axis=1).all():
            step = int(np.flatnonzero(~masks.any(axis=1))[0])
            where = f"{dataset.path}: episode {number}: position_mask"
            raise DatasetError(f"{where}: no tile is allowed at step {step}")
        worth(dataset, number, reward)  # refuses rewards that the episode does not know


def best_episodes(dataset: Dataset, share: float, reward: Reward = "terminal") -> Array:
    """Numbers, ascending, of the episodes with the highest returns; at least one.

    Args:
        dataset: of the episodes.
        share: how many of them, in (0, 1].
        reward: "improvement" ranks by the gain over the incumbent, the others by the final
            throughput.
    """
    returns = dataset.column("final_throughput")
    if reward == "improvement":
        returns = returns - dataset.column("incumbent_throughput")
    keep = max(1, round(share * len(dataset)))
    return np.sort(np.argsort(-returns, kind="stable")[:keep])


def spread(returns: npt.ArrayLike) -> float:
    """Standard deviation of returns in Mq/s, to divide rewards by; 1 where they are all alike."""
    values = np.asarray(returns)
    deviation = float(np.std(values))
    return deviation if deviation > 1e-6 * float(np.abs(values).max()) else 1.0


def input_samples(
    dataset: Dataset, view: SequenceView, episodes: Array
) -> dict[str, npt.NDArray[np.float32]]:
    """Samples to standardise a network's inputs with.

    Args:
        dataset: of the episodes.
        view: of the same dataset.
        episodes: numbers of those to sample from; SAMPLE of them, evenly spaced, are taken.

    Returns:
        (n, tiles, H) of ``machine_view`` and ``incumbent_view``, (n, features) of ``slice_view``
        and ``meta``, and (n,) ``returns``.
    """
    keys = ("machine_view", "incumbent_view", "slice_view", "meta", "returns")
    samples: dict[str, list[npt.NDArray[np.float32]]] = {key: [] for key in keys}
    picks = np.linspace(0, episodes.size - 1, min(SAMPLE, episodes.size)).astype(int)
    for i in episodes[picks]:
        episode = view[int(i)]
        for key in keys:
            values = episode[key].numpy()
            if values.ndim == 3:
                values = values[::STRIDE]
            samples[key].append(values[None] if key == "meta" else values)
    return {key: np.concatenate(parts) for key, parts in samples.items()}
