"""Checks of arguments, which raise typed errors."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeGuard

from pmoss_env.errors import DescriptionError, UnknownNameError, unknown_key


def is_whole(value: object, minimum: float = 0, maximum: float = math.inf) -> TypeGuard[int]:
    """Whether a value is an int in [minimum, maximum], and not true or false."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and minimum <= value <= maximum  # type: ignore[operator]


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite int or float, and not true or false."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


#: By the name of a type: what holds for its values, and the rule in words.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (lambda value: is_whole(value, -math.inf), "be a whole number"),
    "float": (is_number, "be a finite number"),
    "bool": (lambda value: isinstance(value, bool), "be true or false"),
    "str": (lambda value: isinstance(value, str), "be a text"),
}


def check_type(name: str, kind: Any, value: Any) -> None:
    """Raises DescriptionError where an int, float, bool or str is asked for, and it is another.

    Args:
        kind: the type, or its name, as an annotation holds it; values of others are not checked.
    """
    of_kind = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    good, rule = _RULES.get(of_kind, (lambda value: True, ""))
    if not good(value):
        raise DescriptionError(f"{name} = {value!r}: must {rule}")


def check_keys(
    where: str, table: Collection[str], known: Collection[str], required: Iterable[str] = ()
) -> None:
    """Raises DescriptionError for the first key of a table that is unknown, or missing.

    Args:
        where: what stands before a key in the message, such as "topology.".
    """
    for key in table:
        if key not in known:
            raise DescriptionError(unknown_key(f"{where}{key}", key, known))
    for key in required:
        if key not in table:
            raise DescriptionError(f"{where}{key}: is missing")


def check_name(kind: str, name: object, names: Collection[str]) -> None:
    """Raises UnknownNameError unless ``name`` is one of ``names``."""
    if not isinstance(name, str) or name not in names:
        raise UnknownNameError(kind, name, names)


def check_options(options: object, names: Collection[str] = ()) -> None:
    """Checks the options of an environment's reset().

    Raises:
        DescriptionError: they are neither None nor a dict.
        UnknownNameError: one that is not in ``names``.
    """
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise DescriptionError(f"options = {options!r}: must be None or a dict of options by name")
    for name in options:
        check_name("option", name, names)


def check_whole(name: str, value: Any, minimum: int, maximum: int | None = None) -> None:
    """Raises DescriptionError unless ``value`` is an int from ``minimum`` to ``maximum``.

    NumPy integers are not valid: Gymnasium cannot write them to an environment's JSON.
    """
    if not is_whole(value, minimum, math.inf if maximum is None else maximum):
        limit = "" if maximum is None else f" to {maximum:,}"
        raise DescriptionError(f"{name} = {value!r}: must be a whole number from {minimum}{limit}")


def check_number(name: str, value: Any, minimum: float, maximum: float = math.inf) -> None:
    """Raises DescriptionError unless ``value`` is a number from ``minimum`` to ``maximum``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not minimum <= value <= maximum:
        limit = "" if maximum == math.inf else f" to {maximum:,g}"
        raise DescriptionError(f"{name} = {value!r}: must be a number from {minimum:g}{limit}")
