"""The statements of P-MOSS in one setting, declared before, and what each switch changes in it.

In the place of P-MOSS stand what learned, what retrieves, what selects, a search, rules and Random.
So it is known what of a gain each of them explains. The schedules are those of the study
``answers``: nothing learns or plays here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from pmoss_benchmarks.offline.episodes import unpack_episodes
from pmoss_benchmarks.spatial.author_tables import NAMED, best_of_random
from pmoss_benchmarks.spatial.declared_tables import (
    ALL,
    BEST_LOGGED,
    DECLARED,
    OF_NAMED,
    PLACES,
    TABLES,
    behind,
    held,
    level_cases,
    shown,
    summary_of,
    without_files,
)
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run, check_names
from pmoss_benchmarks.study.store import file_of, read_stored
from pmoss_benchmarks.validation.laboratory import SEARCH, Laboratory
from pmoss_benchmarks.validation.questions import LargestGap, Ratio
from pmoss_benchmarks.validation.targets import TARGETS, Target, choose
from pmoss_env.files import read_toml
from pmoss_env.machines import load_machine
from pmoss_env.types import Schedule

__all__ = [
    "DECLARED",
    "PLACES",
    "TABLES",
    "Settings",
    "Work",
    "behind",
    "cells",
    "held",
    "level_cases",
    "pairs",
    "shown",
    "summarise",
    "without_files",
]

_FILE: Mapping[str, Any] = read_toml(Path(__file__).with_suffix(".toml"), dict)
#: Arguments of the declared laboratory; the hot keys are those of the tier ``authors``.
SETTING: Mapping[str, Any] = {"seed": 0, **_FILE["setting"]}
#: Why the setting is what it is, by part.
REASONS: Mapping[str, str] = _FILE["reasons"]
#: Changes of the declared laboratory, by the name of the switch; the first changes nothing.
SWITCHES: Mapping[str, Mapping[str, Any]] = {DECLARED: {}, **_FILE["switch"]}
#: Who gives the schedules of the study ``answers``.
KINDS = ("files", "network", "surrogate", "generalist")
#: Those that are asked with every switch.
_ALWAYS = (BEST_LOGGED, SEARCH, "random")


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        cases: keys of SWITCHES; none: all.
        numbers: of the statements; none: all ratios of P-MOSS.
        answers: the study with the schedules.
    """

    AXES: ClassVar = ("cases", "numbers")

    cases: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    answers: str = "answers"

    def __post_init__(self) -> None:
        check_names("switch", self.cases, SWITCHES)
        choose(self.numbers)


def statements(numbers: Sequence[str] = ()) -> list[Target]:
    """The statements of P-MOSS that compare schedules."""
    return [
        target
        for target in (choose(numbers) if numbers else TARGETS)
        if isinstance(target.ask, Ratio | LargestGap) and target.source.startswith("P-MOSS")
    ]


def cells(settings: Settings) -> list[Cell]:
    """Every case and statement."""
    return [
        {"case": case, "number": target.number}
        for case in settings.cases or SWITCHES
        for target in statements(settings.numbers)
    ]


def pairs() -> list[tuple[str, str]]:
    """The servers and workloads that statements about P-MOSS ask for."""
    asked = [in_place(target.ask, SEARCH) for target in statements()]
    every = [(machine, each.workload) for each in asked if each for machine in each.machines]
    return list(dict.fromkeys(every))


def in_place(question: Any, place: str) -> Ratio | LargestGap | None:
    """A question with who has a place in place of the search; None if it asks about no search."""
    names = NAMED if place == OF_NAMED else (place,)
    fields = ("schedules",) if isinstance(question, LargestGap) else ("first", "others")
    if not isinstance(question, Ratio | LargestGap):
        return None
    given = {name: getattr(question, name) for name in fields}
    if not any(SEARCH in schedules for schedules in given.values()):
        return None
    changed = {
        name: tuple(put for each in schedules for put in (names if each == SEARCH else (each,)))
        for name, schedules in given.items()
    }
    return msgspec.structs.replace(question, **changed)


@dataclass
class WithAnswers(Laboratory):
    """A laboratory in which stored schedules can be measured, too.

    Attributes:
        answers: by machine and workload the row of the study ``answers``.
    """

    answers: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    _cores: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict, init=False)

    def throughput(
        self, fidelity: str, machine: str, workload: str, schedule: str, load: str = "saturated"
    ) -> float:
        """See Laboratory; of "KIND:k" the expected best of k schedules, of all with ALL."""
        kind, colon, count = schedule.partition(":")
        if not colon:
            return super().throughput(fidelity, machine, workload, schedule, load)
        measured = super().throughput
        served = [
            measured(fidelity, machine, workload, f"{kind}#{number}", load)
            for number in range(len(self._of(machine, workload, kind)))
        ]
        return max(served) if int(count) == ALL else best_of_random(served, int(count))

    def schedule(self, machine: str, workload: str, name: str, load: str) -> Schedule:
        """See Laboratory; "KIND#n" and BEST_LOGGED are those of ``answers``."""
        if name == BEST_LOGGED:
            name = f"files#{int(np.argmax(self.answers[machine, workload]['logged']))}"
        kind, hash_, number = name.partition("#")
        if not hash_:
            return super().schedule(machine, workload, name, load)
        cores = self._of(machine, workload, kind)[int(number)]
        placed = load_machine(machine).local_schedule(cores)
        return replace(placed, data="first_touch") if self.first_touch else placed

    def _of(self, machine: str, workload: str, kind: str) -> list[Any]:
        """The (slices,) cores of each schedule of a kind."""
        key = (machine, workload, kind)
        if key not in self._cores:
            core_of_tile = load_machine(machine).core_of_tile
            packed = self.answers[machine, workload]["schedules"][kind]
            self._cores[key] = [core_of_tile[list(tiles)] for tiles in unpack_episodes(packed)]
        return self._cores[key]

    def missing(self, question: Ratio | LargestGap, place: str) -> str:
        """Why a place has no schedule for all that a question asks about; empty where it has."""
        kind = "files" if place == BEST_LOGGED else place.partition(":")[0]
        if kind not in KINDS:
            return ""
        for machine in question.machines:
            row = self.answers.get((machine, question.workload))
            if row is None:
                return "not in the study"
            if kind not in row["schedules"]:
                return f"{machine}: {row['missing'][kind]}"
        return ""


def answers_of(results: Path, study: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    """See WithAnswers.answers."""
    rows = read_stored(file_of(results, study)).rows
    return {(row["machine"], row["workload"]): row for row in rows}


class Work:
    """Asks statements; all of a case share what was measured for it."""

    def __init__(self, run: Run) -> None:
        self._answers = answers_of(run.results, run.settings.answers)
        self._case = ""
        self._laboratory: WithAnswers | None = None

    def __call__(self, cell: Cell) -> Row:
        """What is asked in a case.

        Returns:
            ``got``: the value by what stands in the place of P-MOSS; "" where nothing does. In the
            declared setting also ``missing``: by place why it has no schedule; and ``gain``: by
            place what it serves over the best of Grouped, Mixed and Spread, the mean over machines.
        """
        if cell["case"] != self._case or self._laboratory is None:
            self.close()
            self._case = cell["case"]
            values = {**SETTING, **SWITCHES[self._case]}
            self._laboratory = WithAnswers(**values, answers=self._answers)
        laboratory = self._laboratory
        (target,) = choose([cell["number"]])
        assert isinstance(target.ask, Ratio | LargestGap)
        if in_place(target.ask, SEARCH) is None:
            return {"got": {"": target.ask.ask(laboratory, "analytic")}}
        declared = cell["case"] == DECLARED
        row: Row = {"got": {}, **({"missing": {}, "gain": {}} if declared else {})}
        for place in PLACES if declared else _ALWAYS:
            if reason := laboratory.missing(target.ask, place):
                if declared:
                    row["missing"][place] = reason
                continue
            question = in_place(target.ask, place)
            assert question is not None
            row["got"][place] = question.ask(laboratory, "analytic")
            if declared and place != OF_NAMED:
                over = Ratio(target.ask.machines, target.ask.workload, (place,), NAMED)
                row["gain"][place] = over.ask(laboratory, "analytic")
        return row

    def close(self) -> None:
        """Releases the backends."""
        if self._laboratory is not None:
            self._laboratory.close()
        self._laboratory = None


def summarise(settings: Settings, rows: Rows) -> dict[str, Any]:
    """See declared_tables.summary_of."""
    return summary_of(rows)
