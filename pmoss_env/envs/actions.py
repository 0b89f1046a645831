"""The check of actions that all environments share."""

from __future__ import annotations

import operator
from typing import Any

from pmoss_env.errors import IllegalActionError


def whole_action(action: Any, count: int, rule: str) -> int:
    """An action of ``Discrete(count)`` as an int.

    Args:
        action: argument of step().
        count: number of actions.
        rule: begins the sentence that ends "0 to <count - 1>", for the error.

    Raises:
        IllegalActionError: it is no whole number, or out of range.
    """
    try:
        number = operator.index(action)
    except TypeError as error:
        raise IllegalActionError(f"action {action!r}: must be a whole number") from error
    if not 0 <= number < count:
        raise IllegalActionError(f"action {number}: {rule} 0 to {count - 1}")
    return number
