"""Checks of the arguments of policies for continual scheduling."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from pmoss_env.errors import DescriptionError

#: Futures that a policy may plan for, those of all epochs together: each is a model in memory.
MOST_FUTURES = 4096


def whole(name: str, value: Any, lowest: int = 1, highest: int = MOST_FUTURES) -> int:
    """The value of an argument if it is a whole number from ``lowest`` to ``highest``.

    Raises:
        DescriptionError: it is not; names argument and value.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, Integral)
        or not lowest <= int(value) <= highest
    ):
        raise DescriptionError(
            f"{name} = {value!r}: must be a whole number from {lowest} to {highest:,}"
        )
    return int(value)


def number(name: str, value: Any, highest: float = math.inf) -> float:
    """The value of an argument if it is a finite number from 0 to ``highest``.

    Raises:
        DescriptionError: it is not; names argument and value.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not 0 <= value <= highest or value == math.inf:
        limit = "" if highest == math.inf else f" to {highest:g}"
        raise DescriptionError(f"{name} = {value!r}: must be a finite number from 0{limit}")
    return float(value)
