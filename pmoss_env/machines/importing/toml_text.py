"""Machine files as text, one parameter per line as the presets have them.

tomli-w would write every parameter, a table of value, source and confidence, as a section of four
lines. People read and edit these files line by line, so these few lines stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def machine_toml(data: Mapping[str, Any]) -> str:
    """The TOML text of what ``Machine.from_dict`` takes; ``tomllib`` reads the same from it."""
    lines = [f"{key} = {_value(data[key])}" for key in ("name", "description")]
    for table in ("topology", "roles", "parameters"):
        lines += ["", f"[{table}]"]
        lines += [f"{key} = {_value(value)}" for key, value in data[table].items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    match value:
        case str():
            # A JSON text is a TOML text, save that TOML wants DEL escaped as well.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case float() | int():
            return repr(value)
        case Mapping():
            return "{ " + ", ".join(f"{key} = {_value(v)}" for key, v in value.items()) + " }"
        case _:
            return "[" + ", ".join(map(_value, value)) + "]"
