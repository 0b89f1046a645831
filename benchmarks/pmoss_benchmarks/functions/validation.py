"""Published statements about real machines: what our models say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from pmoss_benchmarks.study.function import Cell, Count, Progress, Row, Rows, Run, check_names
from pmoss_benchmarks.study.tables import TableOfRows, table_of
from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_benchmarks.validation.targets import TARGETS, Target, choose
from pmoss_env.extras import require

USUAL, NO_OVERHEAD = "as judged", "no overhead"
#: Changes of the laboratory, by case.
CASES: Mapping[str, Mapping[str, Any]] = {USUAL: {}, NO_OVERHEAD: {"overhead_cycles": 0.0}}
#: Of the search that stands in the place of P-MOSS, and of every query.
SEARCH_BUDGET, OVERHEAD_CYCLES = Laboratory.budget, Laboratory.overhead_cycles


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        fidelity: whose values they are.
        cases: keys of CASES; none: all.
        numbers: of the statements; none: all that the fidelity answers.
        instances: workload instances of the usual case, of seeds 1, 2, ...; the other case has
            the first.
        simulated: options of the simulated backend.
    """

    AXES: ClassVar = ("cases", "numbers")

    fidelity: Literal["analytic", "simulated"]
    cases: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    instances: Count = 1
    simulated: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_names("case", self.cases, CASES)
        choose(self.numbers)


def cells(settings: Settings) -> list[Cell]:
    """Every case and statement."""
    return [
        {"case": case, "number": target.number}
        for case in settings.cases or CASES
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
                Laboratory(settings.simulated or {}, seed=seed, **CASES[self._case])
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
class Verdict:
    """What became of a statement.

    Attributes:
        target: the statement.
        simulated: the value that is judged; None where nothing models it.
        random: the same with Random in the place of the search; None where no search is judged.
        analytic: by case the values of the model, one per instance.
        analytic_random: the same with Random, of the usual case.
    """

    target: Target
    simulated: float | None
    random: float | None
    analytic: Mapping[str, Sequence[float]]
    analytic_random: Sequence[float]

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


def verdicts(judged: Rows, modelled: Rows) -> dict[str, Verdict]:
    """Every statement by its number, also those that nothing models.

    Args:
        modelled: rows of the analytic model.
    """
    simulated = {row["number"]: row for row in judged}
    analytic: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in modelled:
        analytic.setdefault(row["number"], {})[row["case"]] = row
    of_all = {}
    for target in TARGETS:
        row, cases = simulated.get(target.number, {}), analytic.get(target.number, {})
        of_all[target.number] = Verdict(
            target,
            row["got"][0] if row else None,
            row["random"][0] if "random" in row else None,
            {case: answers["got"] for case, answers in cases.items()},
            cases.get(USUAL, {}).get("random", ()),
        )
    return of_all


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
