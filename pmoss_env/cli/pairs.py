"""Options of the form key=value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer


def pairs(words: Sequence[str] | None) -> dict[str, Any]:
    """What key=value options say; a value that is no JSON is a text.

    Raises:
        BadParameter: a word without an equals sign or key.
    """
    result: dict[str, Any] = {}
    for word in words or []:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{word!r}: must be key=value")
        try:
            result[key] = json.loads(text)
        except json.JSONDecodeError:
            result[key] = text
    return result
