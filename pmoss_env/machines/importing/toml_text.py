"""Machine files as text, with one parameter per line as in the presets.

tomli-w would write each parameter, a table of value, source and confidence, as a section of four
lines, which is hard to edit by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def machine_toml(data: Mapping[str, Any]) -> str:
    """The TOML text of an argument of ``Machine.from_dict``; ``tomllib`` reads it back."""
    lines = toml_lines({key: data[key] for key in ("name", "description")})
    for table in ("topology", "roles", "parameters"):
        lines += ["", f"[{table}]", *toml_lines(data[table])]
    return "\n".join(lines) + "\n"


def toml_lines(table: Mapping[str, Any]) -> list[str]:
    """A line of TOML for each key of a table."""
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:
    match value:
        case str():
            # A JSON text is a TOML text, except that TOML also escapes DEL.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case float() | int():
            return repr(value)
        case Mapping():
            return "{ " + ", ".join(toml_lines(value)) + " }" if value else "{}"
        case _:
            return "[" + ", ".join(map(_value, value)) + "]"
