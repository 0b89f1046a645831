"""Checks of arguments, which raise typed errors."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from pmoss_env.errors import DescriptionError, UnknownNameError


def check_name(kind: str, name: object, names: Collection[str]) -> None:
    """Raises UnknownNameError unless ``name`` is one of ``names``."""
    if not isinstance(name, str) or name not in names:
        raise UnknownNameError(kind, name, names)


def check_options(options: object, names: Collection[str] = ()) -> None:
    """Checks the options of an environment's reset().

    Raises:
        DescriptionError: they are neither None nor a dict.
        UnknownNameError: one that is not ``known``.
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
    valid = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
    if not valid or (maximum is not None and value > maximum):
        limit = "" if maximum is None else f" to {maximum:,}"
        raise DescriptionError(f"{name} = {value!r}: must be a whole number from {minimum}{limit}")


def check_number(name: str, value: Any, minimum: float, maximum: float = math.inf) -> None:
    """Raises DescriptionError unless ``value`` is a number from ``minimum`` to ``maximum``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not minimum <= value <= maximum:
        limit = "" if maximum == math.inf else f" to {maximum:,g}"
        raise DescriptionError(f"{name} = {value!r}: must be a number from {minimum:g}{limit}")
