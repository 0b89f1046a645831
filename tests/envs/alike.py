"""Comparing what two environments return."""

import numpy as np


def alike(one, other):
    """The same structure and the same bits."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert set(one) == set(other)
        for key in one:
            alike(one[key], other[key])
    elif isinstance(one, np.ndarray) and one.dtype == object:
        for a, b in zip(one, other, strict=True):
            alike(a, b)
    elif one is not None:
        a, b = np.asarray(one), np.asarray(other)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
