"""Counters of stored data, in the columns of today's table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pmoss_datasets.schema import Array
from pmoss_datasets.spatial.schema import FIELD
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES


def name_problems(names: tuple[str, ...]) -> Iterator[str]:
    """The problems of the names of stored counters."""
    for name in names:
        if name not in COUNTER_INDEX:
            yield (
                f"counter_names: {name!r}: unknown: written by a newer version; this one knows "
                f"{', '.join(COUNTER_NAMES)}"
            )
        elif names.count(name) > 1:
            yield f"counter_names: {name!r}: is there twice"


def in_todays_columns(field: str, array: Array, names: tuple[str, ...]) -> Array:
    """A field as the table of counters is today.

    Args:
        array: (N, ...) as stored.
        names: of the counters that were stored, in the order of the last axis.

    Returns:
        The array itself if nothing changes. Else a copy, in which counters that were not stored
        are 0, with a running ratio of 0: not available.
    """
    if names == COUNTER_NAMES or "H" not in FIELD[field].axes:
        return array
    whole = np.zeros((*array.shape[:-1], len(COUNTER_NAMES)), dtype=array.dtype)
    whole[..., [COUNTER_INDEX[name] for name in names]] = array
    return whole
