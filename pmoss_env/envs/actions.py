"""What every environment checks of an action before it looks at its own rules."""

from __future__ import annotations

import operator
from typing import Any

from pmoss_env.errors import IllegalActionError


def whole_action(action: Any, count: int, rule: str) -> int:
    """An action of ``Discrete(count)`` as an int.

    Args:
        action: whatever step() was given.
        count: how many actions there are.
        rule: begins the sentence that ends "0 to <count - 1>", for the error.

    Raises:
        IllegalActionError: it is no whole number, or there is no such action.
    """
    try:
        number = operator.index(action)
    except TypeError as error:
        raise IllegalActionError(f"action {action!r}: must be a whole number") from error
    if not 0 <= number < count:
        raise IllegalActionError(f"action {number}: {rule} 0 to {count - 1}")
    return number
