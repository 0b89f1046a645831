"""Checks of plain values by the type that a class or function names for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pmoss_env.errors import DescriptionError


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


#: By the name of a type: what holds for its values, and the rule in words.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (lambda value: type(value) is int, "be a whole number"),
    "float": (_is_number, "be a finite number"),
    "bool": (lambda value: isinstance(value, bool), "be true or false"),
    "str": (lambda value: isinstance(value, str), "be a text"),
}


def check_type(what: str, kind: Any, value: Any) -> None:
    """Refuses a value of another type than int, float, bool or str where one is asked for.

    Args:
        what: the value's name, for the message.
        kind: the type, or its name, as an annotation holds it; values of others are not checked.
        value: as a file or a command line gives it.

    Raises:
        DescriptionError: it names the value and the rule.
    """
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    good, rule = _RULES.get(name, (lambda value: True, ""))
    if not good(value):
        raise DescriptionError(f"{what} = {value!r}: must {rule}")
