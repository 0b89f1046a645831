"""Checks of values in users' files, by msgspec, with errors of one line that name the key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from pmoss_env.errors import DescriptionError, unknown_key
from pmoss_env.extras import require

#: What a value must be, by msgspec's name of the expected type.
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "int | null": "a whole number",
    "float": "a number",
    "str": "a text",
    "array": "a list",
    "object": "a table",
}
#: Likewise, by the sign of msgspec's bound.
_BOUNDS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)


def check(kind: Any, values: Mapping[str, Any], where: str = "") -> None:
    """Refuses values that a dataclass cannot be made of.

    Args:
        kind: the dataclass; its annotations say what each value must be.
        values: by field, plain JSON or such dataclasses.
        where: goes before the key in the error.

    Raises:
        DescriptionError: a key is unknown or missing, or a value is of another type.
    """
    msgspec = _msgspec()
    try:
        msgspec.convert(values, _shape(kind), from_attributes=True)
    except msgspec.ValidationError as error:
        names = [entry.name for entry in fields(kind)]
        raise DescriptionError(f"{where}{in_words(str(error), names, values)}") from error
    except UnicodeEncodeError as error:
        raise DescriptionError(f"{where}{error.object!r}: is no text: half of a surrogate") from (
            error
        )


def _msgspec() -> Any:
    require("msgspec")
    import msgspec

    return msgspec


@lru_cache
def _shape(kind: Any) -> Any:
    """A dataclass as a structure that refuses unknown keys."""
    hints = get_type_hints(kind)
    entries: list[Any] = []
    for entry in fields(kind):
        hint = _nested(hints[entry.name])
        required = entry.default is entry.default_factory is MISSING
        entries.append((entry.name, hint) if required else (entry.name, hint, None))
    return _msgspec().defstruct(
        kind.__name__, entries, forbid_unknown_fields=True, kw_only=True, frozen=True
    )


def _nested(hint: Any) -> Any:
    """A type in which dataclasses refuse unknown keys, too."""
    nested: Any = hint if is_dataclass(hint) else None
    if nested is not None:
        return _shape(nested)
    if get_origin(hint) is tuple:
        return tuple[tuple(_nested(part) for part in get_args(hint))]  # type: ignore[misc]
    return hint


def in_words(message: str, known: Iterable[str], values: Any) -> str:
    """What msgspec says, as ``key = value: must be ...``.

    Args:
        known: the names of the fields that the values may have.
    """
    match = _MESSAGE.fullmatch(message)
    assert match is not None
    what, path = match["what"], match["path"] or ""
    names = re.findall(r"`([^`]*)`", what)
    inside = f"{path}." if path else ""
    if "unknown field" in what:
        return f"{inside}{names[0]}: unknown" if path else unknown_key(names[0], names[0], known)
    if "missing required" in what:
        return f"{inside}{names[0]}: is missing"
    if not names:
        return f"{path}: {what[0].lower()}{what[1:]}" if path else what
    value = values
    # msgspec writes [...] where it does not say which part: the whole is shown.
    for key in re.findall(r"\w+", path.partition("[...]")[0]):
        value = value[int(key)] if key.isdigit() else _part(value, key)
    if bound := re.search(r"` ([<>]=?) (\S+)$", what):
        return f"{path} = {value!r}: must be {_BOUNDS[bound[1]]} {bound[2]}"
    return f"{path} = {value!r}: must be {_WORDS.get(names[0], names[0])}"


def _part(value: Any, key: str) -> Any:
    return value[key] if isinstance(value, Mapping) else getattr(value, key)
