"""To d3rlpy and back: an ``MDPDataset`` with masks, and scores of what d3rlpy collected."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import spaces

from pmoss_datasets.formats.episodes import check_one_part, worth
from pmoss_datasets.schema import Array
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import (
    DatasetError,
    DescriptionError,
    UnknownNameError,
)
from pmoss_env.extras import require
from pmoss_env.types import Float64Array

if TYPE_CHECKING:
    from d3rlpy.dataset import MDPDataset

ObservationForm = Literal["tuple", "flat"]


def to_d3rlpy(
    dataset: Dataset,
    reward: str | None = None,
    *,
    observation: ObservationForm = "tuple",
    episodes: Sequence[int] | None = None,
) -> MDPDataset:
    """A ``d3rlpy.dataset.MDPDataset`` in memory.

    Episodes end by termination at their last step. The action size is that of the
    environment, whatever the data hold: d3rlpy would infer the largest action plus one.

    Args:
        observation: "tuple": one array (N, ...) per key of the observation space, in its order,
            masks as int8; d3rlpy then needs an encoder factory of yours. "flat": one array (N, D)
            float32 as ``gymnasium.spaces.flatten`` makes it.
        episodes: some of them; all if None. Expanded they take megabytes each.

    Raises:
        MissingExtraError: d3rlpy is not installed.
        UnknownNameError: another form or mode.
        DescriptionError: no episodes.
        DatasetError: an episode is damaged, or does not know the rewards asked for.
    """
    d3rlpy = import_d3rlpy()
    check_one_part(dataset, "d3rlpy's form")
    if observation not in ("tuple", "flat"):
        raise UnknownNameError("observation", observation, ("tuple", "flat"))
    expander = dataset.expander()
    mode = dataset.reward(reward)
    chosen = range(len(dataset)) if episodes is None else episodes
    if not len(chosen):
        raise DescriptionError("episodes: none: d3rlpy takes at least one")
    steps = dataset.lengths[list(chosen)]
    ends = np.cumsum(steps)
    total = int(steps.sum())
    arrays = [
        np.empty((total, *(space.shape or ())), dtype=space.dtype)
        for space in expander.space.spaces.values()
    ]
    actions = np.empty((total, 1), dtype=np.int64)
    gained = np.empty((total, 1), dtype=np.float32)
    terminals = np.zeros(total, dtype=np.float32)
    for i, number in enumerate(chosen):
        episode = dataset[int(number)]
        rows = slice(int(ends[i] - steps[i]), int(ends[i]))
        observations = expander.observations(episode, copies=False)
        for array, key in zip(arrays, expander.space.spaces, strict=True):
            array[rows] = observations[key]
        actions[rows, 0] = episode.actions
        gained[rows, 0] = worth(dataset, int(number), mode)
        terminals[rows.stop - 1] = 1
    shown: Any = tuple(arrays)
    if observation == "flat":
        shown = np.concatenate([a.reshape(total, -1) for a in arrays], axis=1, dtype=np.float32)
    return d3rlpy.dataset.MDPDataset(
        shown,
        actions,
        gained,
        terminals,
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=expander.actions,
    )


@dataclass(frozen=True)
class BufferScores:
    """What the episodes of a d3rlpy buffer are worth.

    Attributes:
        returns: (N,) sums of rewards.
        scores: (N,) on the dataset's scale, 0 = random, 100 = good.
        illegal_actions: (N,) how many actions the masks in the observations forbid.
    """

    returns: Float64Array
    scores: Float64Array
    illegal_actions: Array


def score_buffer(buffer: Any, dataset: Dataset, reward: str | None = None) -> BufferScores:
    """Scores episodes that d3rlpy collected on the environment of a dataset.

    d3rlpy keeps neither seeds nor the last observation, so episodes are not played again; their
    shapes, masks and ends are checked.

    Args:
        buffer: a ``ReplayBuffer`` whose observations are those of to_d3rlpy(), tuple or flat.
        dataset: of the same task, with reference scores.

    Raises:
        UnknownNameError: another mode.
        DatasetError: an episode that is not of this task; names episode and field.
    """
    reward = dataset.reward(reward)
    expander = dataset.expander()
    space, key = expander.space, _mask_key(expander.space)
    widths = [int(np.prod(part.shape or ())) for part in space.spaces.values()]
    first = sum(widths[: list(space.spaces).index(key)])
    mask_columns = slice(first, first + expander.actions)
    returns, illegal = [], []
    fixed = "T" not in dataset.domain.ragged
    for number, episode in enumerate(buffer.episodes):
        where = f"buffer: episode {number}"
        actions = np.asarray(episode.actions).reshape(-1)
        if (fixed and actions.size != dataset.steps) or not episode.terminated:
            raise DatasetError(
                f"{where}: terminals: {actions.size} steps, terminated = {episode.terminated}: "
                f"must end{f' after {dataset.steps}' if fixed else ''}"
            )
        observations = episode.observations
        parts = observations if isinstance(observations, list | tuple) else [observations]
        flat = np.concatenate([np.asarray(part).reshape(actions.size, -1) for part in parts], 1)
        if flat.shape[1] != sum(widths):
            raise DatasetError(
                f"{where}: observations: {flat.shape[1]} values: this task has {sum(widths)}"
            )
        inside = (actions >= 0) & (actions < expander.actions)
        masks = flat[:, mask_columns]
        legal = inside & (masks[np.arange(actions.size), np.where(inside, actions, 0)] > 0)
        gained = np.asarray(episode.rewards, dtype=np.float64)
        if not np.isfinite(gained).all():
            raise DatasetError(f"{where}: rewards: must be finite")
        returns.append(gained.sum())
        illegal.append(int((~legal).sum()))
    if not returns:
        raise DatasetError("buffer: episodes: it holds none")
    total = np.array(returns)
    return BufferScores(total, dataset.normalized_score(total, reward), np.array(illegal))


def _mask_key(space: spaces.Dict) -> str:
    """The key of an observation that holds the mask; DatasetError if none does."""
    for key in ("position_mask", "action_mask"):
        if key in space.spaces:
            return key
    raise DatasetError("observations: hold no mask: whether an action is legal is not known")


#: Where ./run installs d3rlpy: apart from the other packages, for it asks for an old Gymnasium that
#: it does not need.
_ASIDE = Path(sys.prefix) / "d3rlpy"


def find_d3rlpy() -> None:
    """Makes d3rlpy importable where it is installed; does not import it, which takes seconds."""
    if "d3rlpy" not in sys.modules and find_spec("d3rlpy") is None and _ASIDE.is_dir():
        # At the end: no package of the environment is hidden by another version of it.
        sys.path.append(str(_ASIDE))
        importlib.invalidate_caches()
    require("d3rlpy")


def import_d3rlpy() -> Any:
    """The module, without the lines that its dependency gym prints.

    Raises:
        MissingExtraError: d3rlpy is not installed.
    """
    find_d3rlpy()
    with redirect_stderr(io.StringIO()):
        import d3rlpy
    return d3rlpy
