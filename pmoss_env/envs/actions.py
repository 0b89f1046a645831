"""The check of actions that all environments share."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pmoss_env.errors import IllegalActionError


def whole_action(action: Any, count: int, rule: str) -> int:
    """An action of ``Discrete(count)`` as an int.

    Args:
        rule: begins the sentence that ends "0 to <count - 1>", for the error.

    Raises:
        IllegalActionError: it is no whole number, or out of range.
    """
    number = whole_number(action, f"action {action!r}: must be a whole number")
    if not 0 <= number < count:
        raise IllegalActionError(f"action {number}: {rule} 0 to {count - 1}")
    return number


def whole_number(value: Any, message: str) -> int:
    """A value as an int; a truth value is none, whether Python's or NumPy's.

    Raises:
        IllegalActionError: with ``message``.
    """
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{value!r} is a truth value")
        return operator.index(value)
    except TypeError as error:
        raise IllegalActionError(message) from error
