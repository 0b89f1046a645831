"""Figures that a paper gives, read from a file, with ours and the verdict beside each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmoss_env.errors import DescriptionError
from pmoss_env.files import read_toml


def judge(path: Path, ours: Mapping[str, float], **words: object) -> list[dict[str, Any]]:
    """Every figure of a file with ``ours``, and its ``verdict``: "inside", "outside" or "fitted".

    Args:
        path: tables ``[[figure]]`` with ``low`` and ``high``, the accepted range. The table
            ``[usual]`` has what a figure leaves out. A figure that a parameter was fitted to is
            ``fitted``, or has another ``basis`` than "predicted".
        ours: our value of each, by its words: its ``statement``, or ``what`` it is.
        **words: fill the names in braces.

    Raises:
        DescriptionError: a figure has no value, or a value no figure.
    """
    usual, figures = read_toml(path, lambda data: (data["usual"], data["figure"]))
    judged = []
    for figure in figures:
        fields: dict[str, Any] = {
            name: value.format(**words) if isinstance(value, str) else value
            for name, value in {**usual, **figure}.items()
        }
        value = ours.get(_name(fields), float("nan"))
        is_fitted = fields.get("fitted") or fields.get("basis", "predicted") != "predicted"
        is_inside = fields["low"] <= value <= fields["high"]
        verdict = "fitted" if is_fitted else "inside" if is_inside else "outside"
        judged.append({**fields, "ours": value, "verdict": verdict})
    if different := {_name(fields) for fields in judged} ^ set(ours):
        raise DescriptionError(f"{path}: {sorted(different)}: each needs a figure and a value")
    return judged


def _name(fields: Mapping[str, Any]) -> str:
    return str(fields.get("statement") or fields.get("what"))
