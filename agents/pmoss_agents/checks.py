"""What agents are given: datasets, arguments of environments, observations and masks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.errors import CheckpointError, DatasetError, DescriptionError


def no_dataset(value: Any) -> DatasetError:
    """The error for what is no dataset."""
    return DatasetError(f"{value!r:.60}: is no Dataset: load(id) or open_dataset(path) gives one")


def all_arguments(agent: str, domain: str, env: Any) -> dict[str, Any]:
    """Arguments of an environment with those that are left out, as plain JSON.

    Args:
        domain: whose environment it is; empty where the agent names none.

    Raises:
        DescriptionError: it is no mapping.
    """
    if not isinstance(env, Mapping):
        raise DescriptionError(
            f"{agent}: {env!r:.60}: fit() takes arguments of an environment, such as "
            f"{{'machine': 'toy'}}, and no {type(env).__name__}"
        )
    from pmoss_datasets.domain import find_domain

    defaults = find_domain(domain).parameters() if domain else {}
    text = json.dumps({**defaults, **env}, default=lambda value: type(value).__name__)
    arguments: dict[str, Any] = json.loads(text)
    return arguments


def check_same(agent: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises CheckpointError where an environment has other arguments than the one before."""
    for key, value in now.items():
        if before.get(key, value) != value:
            raise CheckpointError(
                f"{agent}: has learned in an environment with {key} = {before[key]!r:.60}, and "
                f"this one has {key} = {value!r:.60}: go on in the first one (-e {key}=...), or "
                "train a new agent"
            )


def check_keys(agent: str, observation: Mapping[str, Any], keys: Iterable[str], mode: str) -> None:
    """Raises CheckpointError where an observation of spatial scheduling lacks a key.

    Args:
        mode: the ``observation`` of an environment that shows them all.
    """
    for key in keys:
        if key not in observation:
            raise CheckpointError(
                f"{agent}: the observation lacks {key}: make an environment of spatial scheduling "
                f"with observation={mode!r}"
            )


def allowed_actions(agent: str, mask: Any, actions: int) -> npt.NDArray[np.bool_]:
    """(actions,) whether each is allowed.

    Raises:
        DescriptionError: a mask of another length or of no numbers, or one that allows nothing.
    """
    mask = np.asarray(mask).reshape(-1)
    allowed = mask > 0 if mask.dtype.kind in "biuf" else np.zeros(0, dtype=np.bool_)
    if allowed.size != actions or not allowed.any():
        raise DescriptionError(
            f"{agent}: a mask of {mask.size} {mask.dtype} values, {allowed.sum()} of them "
            f"above 0: must have {actions}, and allow at least one action: see "
            "info['action_mask']"
        )
    return np.asarray(allowed)
