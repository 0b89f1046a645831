"""Published statements about real machines: what our models say, as judged and with switches.

A statement that lies outside has a cause in words. A switch shows a cause: with one condition
changed the same question is asked again, and its value moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from pmoss_benchmarks.study.function import Cell, Progress, Row, Rows, Run, check_names
from pmoss_benchmarks.study.tables import TableOfRows, table_of
from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_benchmarks.validation.questions import LargestGap, Ratio, are_level
from pmoss_benchmarks.validation.targets import TARGETS, Target, choose
from pmoss_env.extras import require
from pmoss_env.files import read_toml

USUAL, NO_OVERHEAD = "as judged", "no overhead"
#: Changes of the laboratory, by the name of the switch.
SWITCHES: Mapping[str, Mapping[str, Any]] = read_toml(
    Path(__file__).with_suffix(".toml"), lambda data: data["switch"]
)
#: Of the search that stands in the place of P-MOSS, and of every query.
SEARCH_BUDGET, OVERHEAD_CYCLES = Laboratory.budget, Laboratory.overhead_cycles
#: A value so close to the end of a range is level with it: no order is shown.
LEVEL = 5e-4
#: The share of the way to the range from which on a switch shows a cause in part.
_PART = 0.5


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        fidelity: whose values they are.
        cases: keys of SWITCHES; none: all.
        numbers: of the statements; none: all that the fidelity answers.
        instances: workload instances of the usual case, of seeds 1, 2, ...; with a switch the
            statements are asked on the first.
        simulated: options of the simulated backend.
    """

    AXES: ClassVar = ("cases", "numbers")

    fidelity: Literal["analytic", "simulated"]
    cases: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    instances: int = 1
    simulated: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_names("switch", self.cases, SWITCHES)
        choose(self.numbers)


def cells(settings: Settings) -> list[Cell]:
    """Every case and statement."""
    return [
        {"case": case, "number": target.number}
        for case in settings.cases or SWITCHES
        for target in choose(settings.numbers)
        if target.is_answered_by(settings.fidelity)
    ]


def prepare(run: Run, progress: Progress) -> None:
    """Refuses to begin without scikit-learn: a statement on models needs it at the end."""
    require("sklearn")


class Work:
    """Asks statements; all of a case share what was measured for it."""

    def __init__(self, run: Run) -> None:
        self._settings: Settings = run.settings
        self._case = ""
        self._laboratories: list[Laboratory] = []

    def __call__(self, cell: Cell) -> Row:
        """A value per instance.

        Returns:
            ``got``, and ``random`` with Random in place of the search where one is asked about.
        """
        settings = self._settings
        if cell["case"] != self._case:
            self.close()
            self._case = cell["case"]
            seeds = range(1, 1 + (settings.instances if self._case == USUAL else 1))
            self._laboratories = [
                Laboratory(settings.simulated or {}, seed=seed, **SWITCHES[self._case])
                for seed in seeds
            ]
        (target,) = choose([cell["number"]])
        questions = {"got": target.ask, "random": target.ask_random}
        return {
            name: [question.ask(laboratory, settings.fidelity) for laboratory in self._laboratories]
            for name, question in questions.items()
            if question is not None
        }

    def close(self) -> None:
        """Releases the backends."""
        for laboratory in self._laboratories:
            laboratory.close()


@dataclass(frozen=True)
class Moved:
    """What a switch makes of a statement.

    Attributes:
        case: the switch.
        value: by the analytic model.
        is_inside: whether it lies inside, and not level with an end of the range.
        closed: the share of the way to the range that it comes; below 0: it goes away from it.
    """

    case: str
    value: float
    is_inside: bool
    closed: float


@dataclass(frozen=True)
class Verdict:
    """What became of a statement.

    Attributes:
        target: the statement.
        simulated: the value that is judged; None where nothing models it.
        random: the same with Random in the place of the search; None where no search is judged.
        analytic: by case the values of the model, one per instance.
        analytic_random: the same with Random, of the usual case.
        level_cases: switches under which all ratios are the same.
    """

    target: Target
    simulated: float | None
    random: float | None
    analytic: Mapping[str, Sequence[float]]
    analytic_random: Sequence[float]
    level_cases: Sequence[str]

    @property
    def usual(self) -> float | None:
        """The model's value, as judged."""
        return next(iter(self.analytic.get(USUAL, ())), None)

    @property
    def is_inside_without_overhead(self) -> bool:
        """Whether the model's value lies inside without the cycles that each query has more."""
        return not self.target.distance(self.analytic[NO_OVERHEAD][0])

    @property
    def is_inside(self) -> bool:
        """Whether the judged value lies inside."""
        return self.simulated is not None and not self.target.distance(self.simulated)

    @property
    def words(self) -> str:
        """The verdict: "inside", "outside", "fitted" or "not modelled"."""
        if self.simulated is None:
            return "not modelled"
        if self.target.is_fitted:
            return "fitted"
        return "inside" if self.is_inside else "outside"

    @property
    def random_is_inside(self) -> bool:
        """Whether Random passes as well: then the statement says nothing about the search."""
        return self.random is not None and not self.target.distance(self.random)

    def is_inside_with(self, case: str) -> bool:
        """Whether the model's first value lies inside with a switch."""
        values = self.analytic.get(case, ())
        return bool(values) and self.is_clearly_inside(values[:1])

    def is_clearly_inside(self, values: Sequence[float]) -> bool:
        """Whether the mean of some values lies inside, and not level with an end of the range."""
        return bool(self.target.low + LEVEL <= np.mean(values) <= self.target.high - LEVEL)

    @property
    def moved(self) -> list[Moved]:
        """What it comes to with each switch, and over all instances; the best first."""
        usual = self.analytic.get(USUAL, ())
        if not usual or not self.target.distance(usual[0]):
            return []
        values = {
            case: of_case[0]
            for case, of_case in self.analytic.items()
            if case != USUAL and case not in self.level_cases
        }
        plural = "" if len(usual) == 1 else "s"
        values[f"the mean of {len(usual)} instance{plural}"] = float(np.mean(usual))
        usual_distance = self.target.distance(usual[0])
        moved = [
            Moved(
                case,
                value,
                self.is_clearly_inside([value]),
                1 - self.target.distance(value) / usual_distance,
            )
            for case, value in values.items()
        ]
        return sorted(moved, key=lambda each: (-each.is_inside, -each.closed))

    @property
    def inside_with(self) -> list[Moved]:
        """The switches that bring it inside."""
        return [each for each in self.moved if each.is_inside]

    @property
    def in_part_with(self) -> list[Moved]:
        """The switches that bring it at least half of the way to the range."""
        return [each for each in self.moved if each.closed >= _PART]

    @property
    def standing(self) -> str:
        """The verdict; of one that lies outside "shown", "in part" or "not shown" by a switch."""
        if self.words != "outside":
            return self.words
        return "shown" if self.inside_with else "in part" if self.in_part_with else "not shown"


def verdicts(judged: Rows, switched: Rows) -> dict[str, Verdict]:
    """Every statement by its number, also those that nothing models.

    Args:
        switched: rows of the analytic model, with switches.
    """
    simulated = {row["number"]: row for row in judged}
    analytic: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in switched:
        analytic.setdefault(row["number"], {})[row["case"]] = row
    level = [case for case in SWITCHES if _is_level(switched, case)]
    of_all = {}
    for target in TARGETS:
        row, cases = simulated.get(target.number, {}), analytic.get(target.number, {})
        of_all[target.number] = Verdict(
            target,
            row["got"][0] if row else None,
            row["random"][0] if "random" in row else None,
            {case: answers["got"] for case, answers in cases.items()},
            cases.get(USUAL, {}).get("random", ()),
            level,
        )
    return of_all


def inside_with(chosen: Sequence[Verdict], case: str) -> list[Verdict]:
    """Those whose first value lies inside with a switch."""
    return [each for each in chosen if each.is_inside_with(case)]


def _is_level(rows: Rows, case: str) -> bool:
    """Whether every ratio of throughputs is the same in a case."""
    ratio_numbers = {t.number for t in TARGETS if isinstance(t.ask, Ratio | LargestGap)}
    ratios = [r["got"][0] for r in rows if r["case"] == case and r["number"] in ratio_numbers]
    return are_level(ratios)


def _statements(rows: Rows) -> TableOfRows:
    """Every statement that was asked; those of a search with Random beside it."""
    asked = []
    for row in rows:
        (target,) = choose([row["number"]])
        means = {name: float(np.mean(row[name])) for name in ("got", "random") if name in row}
        verdict = "outside" if target.distance(means["got"]) else "inside"
        asked.append({"case": row["case"], "target": target, "verdict": verdict, **means})
    columns = {
        "case": "{case}",
        "no": "{target.number}",
        "gate": "{target.gate}",
        "statement": "{target.statement}",
        "published": "{target.expected}",
        "accepted": "{target.low:g} .. {target.high:g}",
        ">ours": "{got:.3g}",
        ">Random": "{random:.3g}",
        "": "{verdict}",
    }
    return table_of(asked, columns)


TABLES = {"default": _statements}
