"""To d3rlpy: an ``MDPDataset`` with masks."""

from __future__ import annotations

import importlib
import io
import sys
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pmoss_datasets.formats.episodes import Chosen, numbers_of, worth
from pmoss_datasets.storage import Dataset
from pmoss_env.checks import check_name
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.extras import require

if TYPE_CHECKING:
    from d3rlpy.dataset import MDPDataset

ObservationForm = Literal["tuple", "flat"]


def to_d3rlpy(
    dataset: Dataset,
    reward: str | None = None,
    *,
    observation: ObservationForm = "flat",
    episodes: Chosen | None = None,
) -> MDPDataset:
    """A ``d3rlpy.dataset.MDPDataset`` in memory.

    Episodes end by termination at their last step. The action size is that of the
    environment, whatever the data hold: d3rlpy would infer the largest action plus one.

    Args:
        observation: "flat": one array (N, D) float32 as ``gymnasium.spaces.flatten`` makes it.
            "tuple": one array (N, ...) per key of the observation space, in its order, masks as
            int8; d3rlpy then needs an encoder factory of yours.
        episodes: some of them, by their numbers or by a mask with true or false for each; all if
            None. Expanded they take megabytes each.

    Raises:
        MissingExtraError: d3rlpy is not installed.
        UnsupportedError: its actions have several parts.
        UnknownNameError: another form or mode.
        DescriptionError: no episodes, or ones that neither numbers nor a mask tell.
        DatasetError: an episode is damaged, or does not know the rewards asked for.
    """
    d3rlpy = import_d3rlpy()
    parts = getattr(dataset.metadata, "parts", ())
    if len(parts) > 1:
        raise UnsupportedError(
            f"{dataset.metadata.id}: actions of {len(parts)} parts: d3rlpy's form is made of "
            "single choices; D4RLView shows each action as one number"
        )
    check_name("observation", observation, ("tuple", "flat"))
    expander = dataset.expander()
    mode = dataset.reward(reward)
    chosen = numbers_of(dataset, episodes)
    if not chosen:
        raise DescriptionError("episodes: none: d3rlpy takes at least one")
    steps = dataset.lengths[chosen]
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
        episode = dataset[number]
        rows = slice(int(ends[i] - steps[i]), int(ends[i]))
        observations = expander.observations(episode, copies=False)
        for array, key in zip(arrays, expander.space.spaces, strict=True):
            array[rows] = observations[key]
        actions[rows, 0] = episode.actions
        gained[rows, 0] = worth(dataset, number, mode)
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
