"""The published statements: read from ``targets/*.toml``, asked, and judged.

Ratios are X_first / X_second of throughputs. A hard statement outside its tolerance fails the
command. A soft one is reported. An open one depends on effects of the original runtime that are
not documented, and is reported only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from pmoss_benchmarks.report import write_report
from pmoss_benchmarks.validation.laboratory import FIDELITIES, SEARCH, Laboratory
from pmoss_benchmarks.validation.questions import AnyQuestion, with_random
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.extras import require
from pmoss_env.files import read_toml

Gate = Literal["hard", "soft", "open"]
Ask = Callable[[Laboratory, str], float]
FOLDER = Path(__file__).parent / "targets"


class _Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a published statement says."""

    number: str
    statement: str
    source: str
    gate: Gate
    low: float
    high: float
    expected: str


class Target(_Statement, frozen=True):
    """One published statement.

    Attributes:
        number: of the statement; variants have a letter.
        statement: in words.
        source: the publication and section.
        gate: what missing it means.
        low: least accepted value.
        high: greatest accepted value.
        expected: the published value, in words.
        ask: gives our value from a laboratory and a fidelity; None where nothing models it.
        cause: why nothing models it, or why it may well be missed.
        ask_random: the same with Random where ``ask`` has the search; None where it has none.
    """

    ask: Ask | None
    cause: str = ""
    ask_random: Ask | None = None

    def accepts(self, value: float) -> bool:
        """Whether a value is inside the tolerance."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Verdict:
    """What became of a target.

    Attributes:
        target: the statement.
        got: our values by fidelity. Where the statement is about P-MOSS, a search stands for it.
        inside: whether the simulated value is inside the tolerance; None if nothing models it.
        random: values by fidelity with Random in place of the search; empty if there is none.
        without_overhead: those of ``got`` that the analytic model gives without the cycles that
            the laboratory adds to each query; asked where a search is judged.
    """

    target: Target
    got: dict[str, float]
    inside: bool | None
    random: dict[str, float] = field(default_factory=dict)
    without_overhead: dict[str, float] = field(default_factory=dict)

    @property
    def random_inside(self) -> bool | None:
        """Whether Random passes as well: then the statement tells nothing about the search."""
        return self.target.accepts(self.random["simulated"]) if self.random else None

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        target = {
            k: v for k, v in msgspec.structs.asdict(self.target).items() if not k.startswith("ask")
        }
        report = {**target, "got": _plain(self.got), "verdict": self.words}
        if self.random:
            report |= {
                "judged_by": SEARCH,
                "random": _plain(self.random),
                "random_inside": self.random_inside,
                "without_overhead": _plain(self.without_overhead),
            }
        return report

    @property
    def words(self) -> str:
        """The verdict in a word or two."""
        if self.inside is None:
            return "not modelled"
        return "inside" if self.inside else "outside"


def _plain(values: dict[str, float]) -> dict[str, float | None]:
    """Values for JSON, which has no NaN."""
    return {name: None if math.isnan(value) else value for name, value in values.items()}


class _Entry(_Statement, frozen=True):
    """A table ``[[target]]``, as it is written."""

    ask: AnyQuestion | None = None
    cause: str = ""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"{self.number}: low = {self.low:g}: must be below {self.high:g}")
        if self.ask is None and not self.cause:
            raise ValueError(f"{self.number}: ask: is missing; else say the cause")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    target: list[_Entry]


def read_targets(folder: Path = FOLDER) -> tuple[Target, ...]:
    """The targets of a folder's files, by number.

    Raises:
        DescriptionError: names the file, the field and the reason.
    """
    found: dict[str, Target] = {}
    for path in sorted(folder.glob("*.toml")):
        for entry in read_toml(path, _entries):
            if entry.number in found:
                raise DescriptionError(f"{path}: number = {entry.number!r}: is there twice")
            values = {name: getattr(entry, name) for name in entry.__struct_fields__}
            values["ask"] = entry.ask and entry.ask.ask
            beside = entry.ask and with_random(entry.ask)
            values["ask_random"] = beside and beside.ask
            found[entry.number] = Target(**values)
    return tuple(found[number] for number in sorted(found, key=_position))


def _entries(data: dict[str, Any]) -> list[_Entry]:
    try:
        return msgspec.convert(data, _File).target
    except msgspec.ValidationError as error:
        raise DescriptionError(str(error)) from error


def _position(number: str) -> tuple[int, str]:
    digits = re.match(r"\d*", number)
    assert digits is not None
    return int(digits.group() or 0), number


TARGETS = read_targets()


def choose(numbers: Sequence[str]) -> list[Target]:
    """The targets of some numbers; UnknownNameError if there is none of a number."""
    known = {target.number: target for target in TARGETS}
    for number in numbers:
        if number not in known:
            raise UnknownNameError("statement", number, known)
    return [known[number] for number in numbers]


def validate(
    laboratory: Laboratory,
    targets: Sequence[Target] = TARGETS,
    announce: Callable[[Target, int, int], None] = lambda target, done, total: None,
) -> list[Verdict]:
    """Asks every target in both fidelities; the simulated one decides.

    Args:
        laboratory: where they are asked.
        targets: what to ask.
        announce: called with each target before it is asked, and with (asked, total).

    Raises:
        MissingExtraError: scikit-learn is not installed; told now and not after ten minutes.
    """
    require("sklearn")
    verdicts = []
    plain = laboratory.without_overhead()
    for done, target in enumerate(targets):
        announce(target, done, len(targets))
        if target.ask is None:
            verdicts.append(Verdict(target, {}, None))
            continue
        got = {fidelity: target.ask(laboratory, fidelity) for fidelity in FIDELITIES}
        beside = target.ask_random
        random = {f: beside(laboratory, f) for f in FIDELITIES} if beside else {}
        without = {"analytic": target.ask(plain, "analytic")} if beside else {}
        inside = target.accepts(got["simulated"])
        verdicts.append(Verdict(target, got, inside, random, without))
    plain.close()
    return verdicts


@dataclass(frozen=True)
class Validation:
    """All verdicts, and what they come to.

    Attributes:
        verdicts: of the statements.
        budget: evaluations of the search that stands for P-MOSS.
        overhead_cycles: see Laboratory.
    """

    verdicts: list[Verdict]
    budget: int
    overhead_cycles: float

    @property
    def asked(self) -> int:
        """How many statements something models."""
        return sum(verdict.inside is not None for verdict in self.verdicts)

    @property
    def inside(self) -> int:
        """How many of them lie inside their tolerance."""
        return sum(bool(verdict.inside) for verdict in self.verdicts)

    @property
    def search_gates(self) -> list[Verdict]:
        """Hard statements on P-MOSS that the search passes in its place."""
        return [v for v in self.verdicts if v.target.gate == "hard" and v.random and v.inside]

    @property
    def failed(self) -> list[str]:
        """Numbers of the hard statements outside their tolerance."""
        return [
            verdict.target.number
            for verdict in self.verdicts
            if verdict.target.gate == "hard" and verdict.inside is False
        ]


def run_validation(
    numbers: Sequence[str] | None,
    simulated: dict[str, Any],
    out: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Validation:
    """Asks the statements and writes the report.

    Args:
        numbers: of the statements; None: all.
        simulated: options of the simulated backend.
        out: JSON file, or None.
        progress: called with (asked, total).

    Raises:
        UnknownNameError: no such statement.
        MissingExtraError: scikit-learn is not installed.
    """
    targets = choose(numbers) if numbers else TARGETS
    laboratory = Laboratory(simulated=simulated)
    try:
        verdicts = validate(laboratory, targets, lambda _, done, total: progress(done, total))
        progress(len(targets), len(targets))
    finally:
        laboratory.close()
    if out:
        settings = {
            "simulated": simulated,
            "budget": laboratory.budget,
            "overhead_cycles": laboratory.overhead_cycles,
        }
        write_report(out, [__name__], settings=settings, verdicts=[v.as_dict() for v in verdicts])
    return Validation(verdicts, laboratory.budget, laboratory.overhead_cycles)
