"""Playing the stored episodes of a dataset again, and comparing every value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pmoss_datasets.folder import DATA
from pmoss_datasets.recipes import Behaviour, Recipe
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import DatasetError

#: Fields that no replay can prove: who chose the actions, and with what chance.
_UNPROVEN = ("policy", "propensity", "counterfactual")


def replay(
    dataset: Dataset, progress: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[str]:
    """Plays every episode again from its seed and its actions.

    Unlike a rebuild it needs no policy, so that it also proves what agents collected.

    Args:
        progress: called with (episodes done, episodes).

    Yields:
        One line for each episode that comes out otherwise; names file, episode and field.

    Raises:
        PmossError: the environment cannot be made.
    """
    domain = dataset.domain
    # The behaviour is never asked.
    recipe = Recipe(
        domain=domain.name,
        env=dict(dataset.metadata.env_kwargs),
        tier="replay",
        reference_episodes=0,
        behaviours=(Behaviour("random"),),
    )
    player = domain.player(recipe)
    fills = {field.name: field.fill for field in dataset.metadata.fields}
    try:
        for number, episode in enumerate(dataset):
            where = f"{dataset.path / DATA}: episode {number}"
            try:
                played = player.replay(episode.seed, episode.actions, episode.episode)
            except DatasetError as error:
                yield f"{where}: {error}"
            else:
                stored = domain.values(episode)
                for name, value in played.values.items():
                    padded = np.asarray(stored[name])
                    if name not in _UNPROVEN and not is_same(padded, value, fills.get(name)):
                        yield f"{where}: {name}: comes out otherwise when it is played again"
                        break
            progress(number + 1, len(dataset))
    finally:
        player.close()


def is_same(stored: np.ndarray[Any, Any], value: Any, fill: int | None = None) -> bool:
    """Whether a value is the stored one, but for the padding of the latter.

    Args:
        fill: what the padding must hold; None: anything.
    """
    now = np.asarray(value)
    if now.ndim != stored.ndim or any(n > s for n, s in zip(now.shape, stored.shape, strict=True)):
        return False
    inside = tuple(slice(0, size) for size in now.shape)
    held = stored[inside] if now.ndim else stored
    if fill is not None and now.ndim:
        padding = np.ones(stored.shape, dtype=np.bool_)
        padding[inside] = False
        if (stored[padding] != fill).any():
            return False
    return np.array_equal(held, now.astype(held.dtype), equal_nan=held.dtype.kind == "f")
