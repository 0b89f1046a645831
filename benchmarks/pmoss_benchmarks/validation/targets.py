"""Published statements about real machines, from ``targets/*.toml``, and figures of papers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from pmoss_benchmarks.study.description import convert
from pmoss_benchmarks.validation.questions import AnyQuestion, Measured, Ratio, in_place_of_search
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.files import read_toml

FOLDER = Path(__file__).parent / "targets"


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One published statement: a table ``[[target]]``.

    Attributes:
        number: of the statement; variants have a letter.
        statement: in words. Ratios are X_first / X_second of throughputs.
        source: the publication and section.
        gate: what missing it means. A "hard" one must hold, a "soft" one is reported. An "open" one
            depends on effects of the original runtime that are not documented.
        low: least accepted value.
        high: greatest accepted value.
        expected: the published value, in words.
        ask: gives our value; None where nothing models it.
        cause: why nothing models it, or why it may well be missed.
    """

    number: str
    statement: str
    source: str
    gate: Literal["hard", "soft", "open"]
    low: float
    high: float
    expected: str
    ask: AnyQuestion | None = None
    cause: str = ""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"{self.number}: low = {self.low:g}: must be below {self.high:g}")
        if self.ask is None and not self.cause:
            raise ValueError(f"{self.number}: ask: is missing; else say the cause")

    @property
    def ask_random(self) -> AnyQuestion | None:
        """A ratio with Random in place of the search; None where it asks about none."""
        return in_place_of_search(self.ask, ("random",)) if isinstance(self.ask, Ratio) else None

    def is_answered_by(self, fidelity: str) -> bool:
        """Whether the models of a fidelity give a value."""
        return self.ask is not None and (
            fidelity == "simulated" or not isinstance(self.ask, Measured)
        )

    def distance(self, value: float) -> float:
        """How far a value is from the accepted range; 0 inside."""
        return max(self.low - value, value - self.high, 0.0)

    @property
    def is_fitted(self) -> bool:
        """Whether it set a value that no source gives: then it is no evidence."""
        return self.cause.endswith("no evidence")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    target: list[Target]


def read_targets(folder: Path = FOLDER) -> tuple[Target, ...]:
    """The targets of a folder's files, by number.

    Raises:
        DescriptionError: names the file, the field and the reason.
    """
    targets: dict[str, Target] = {}
    for path in sorted(folder.glob("*.toml")):
        for target in read_toml(path, lambda data: convert(data, _File).target):
            if target.number in targets:
                raise DescriptionError(f"{path}: number = {target.number!r}: is there twice")
            targets[target.number] = target
    return tuple(targets[number] for number in sorted(targets, key=_position))


def _position(number: str) -> tuple[float, str]:
    digits = re.match(r"\d+", number)
    return (int(digits[0]) if digits else math.inf), number


TARGETS = read_targets()


def choose(numbers: Sequence[str]) -> list[Target]:
    """The targets of some numbers; none: all. UnknownNameError if there is none of a number."""
    by_number = {target.number: target for target in TARGETS}
    for number in numbers:
        if number not in by_number:
            raise UnknownNameError("statement", number, by_number)
    return [by_number[number] for number in numbers or by_number]


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
