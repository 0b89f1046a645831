"""The statements of P-MOSS in one setting, declared before, and what each switch changes in it.

The network of the study ``authors`` plays where it learned. The best schedule of its data stands
beside it. So it is known whether retrieval, a search or Random makes a statement hold as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pmoss_benchmarks.offline.episodes import actions_of
from pmoss_benchmarks.spatial.author_networks import USUAL
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run, check_names
from pmoss_benchmarks.study.store import file_of, read_stored
from pmoss_benchmarks.study.tables import TableOfRows, grouped, table_of
from pmoss_benchmarks.validation.laboratory import SEARCH, Laboratory
from pmoss_benchmarks.validation.questions import LargestGap, Ratio, in_place_of_search
from pmoss_benchmarks.validation.targets import TARGETS, Target, choose
from pmoss_datasets.evaluation import unpack_actions
from pmoss_env.files import read_toml
from pmoss_env.machines import load_machine
from pmoss_env.types import Schedule

DECLARED = "as declared"
_FILE: Mapping[str, Any] = read_toml(Path(__file__).with_suffix(".toml"), dict)
#: Why the setting is what it is, by part.
REASONS: Mapping[str, str] = _FILE["reasons"]
#: Changes of the declared laboratory, by the name of the switch; the first changes nothing.
SWITCHES: Mapping[str, Mapping[str, Any]] = {DECLARED: {}, **_FILE["switch"]}
#: Who stands in the place of P-MOSS, and how that is called.
PLACES = {
    "network": "the network",
    "best-answer": "its best answer",
    "best-logged": "the best logged file",
    SEARCH: "search",
    "random": "Random",
}
#: Ratios that differ by less are all the same: nothing but the switch decides them.
_SAME = 0.01


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        cases: keys of SWITCHES; none: all.
        numbers: of the statements; none: all ratios of P-MOSS.
        authors: the studies with the networks' answers; a machine's first one counts.
    """

    AXES: ClassVar = ("cases", "numbers")

    cases: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    authors: tuple[str, ...] = ("authors",)

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


@dataclass
class WithNetworks(Laboratory):
    """A laboratory in which the answers of networks can be measured, too.

    Attributes:
        answers: by machine and workload the (slices,) cores of each answer, and of the best logged
            schedule last.
    """

    answers: Mapping[tuple[str, str], Sequence[Any]] = field(default_factory=dict)

    def throughput(
        self, fidelity: str, machine: str, workload: str, schedule: str, load: str = "saturated"
    ) -> float:
        """See Laboratory; of "network" the mean over its answers, of "best-answer" the best."""
        measured = super().throughput
        if schedule not in ("network", "best-answer"):
            return measured(fidelity, machine, workload, schedule, load)
        names = [f"answer-{n}" for n in range(len(self.answers[machine, workload]) - 1)]
        served = [measured(fidelity, machine, workload, name, load) for name in names]
        return float(np.mean(served) if schedule == "network" else max(served))

    def schedule(self, machine: str, workload: str, name: str, load: str) -> Schedule:
        """See Laboratory; "answer-<n>" and "best-logged" are those of ``answers``."""
        if name != "best-logged" and not name.startswith("answer-"):
            return super().schedule(machine, workload, name, load)
        number = -1 if name == "best-logged" else int(name.rpartition("-")[2])
        return load_machine(machine).local_schedule(self.answers[machine, workload][number])

    def knows(self, question: Ratio, place: str) -> bool:
        """Whether there are answers for all that a question asks about, in a place of PLACES."""
        pairs = [(machine, question.workload) for machine in question.machines]
        least = 1 if place == "best-logged" else 2
        return all(len(self.answers.get(pair, ())) >= least for pair in pairs)


def answers_of(results: Path, studies: Sequence[str]) -> dict[tuple[str, str], list[Any]]:
    """See WithNetworks.answers: drawn within the paper's limit, for the return that is usual."""
    answers: dict[tuple[str, str], list[Any]] = {}
    for study in studies:
        for row in read_stored(file_of(results, study)).rows:
            if row["load"] != "saturated" or not row["networks"]:
                continue
            machine = load_machine(row["machine"])
            plays = [
                play
                for play in row["networks"][0]["plays"]
                if (play["keys"], play["wanted"], play["sampled"]) == ("logged", USUAL, True)
                and play["limit"] > 0
                and "actions" in play
            ]
            tiles = [list(each) for play in plays for each in actions_of(play)]
            tiles.append(unpack_actions(row["files"]["best"]))
            cores = [machine.core_of_tile[each] for each in tiles]
            answers.setdefault((row["machine"], row["workload"]), cores)
    return answers


class Work:
    """Asks statements; all of a case share what was measured for it."""

    def __init__(self, run: Run) -> None:
        self._answers = answers_of(run.results, run.settings.authors)
        self._case = ""
        self._laboratory: WithNetworks | None = None

    def __call__(self, cell: Cell) -> Row:
        """``got``: by what stands in the place of P-MOSS; "" where nothing does."""
        if cell["case"] != self._case or self._laboratory is None:
            self.close()
            self._case = cell["case"]
            values = {"seed": 0, **_FILE["setting"], **SWITCHES[self._case]}
            self._laboratory = WithNetworks(**values, answers=self._answers)
        laboratory = self._laboratory
        (target,) = choose([cell["number"]])
        assert target.ask is not None
        asked = {place: in_place_of_search(target.ask, place) for place in PLACES}
        if asked[SEARCH] is None:
            return {"got": {"": target.ask.ask(laboratory, "analytic")}}
        return {
            "got": {
                place: question.ask(laboratory, "analytic")
                for place, question in asked.items()
                if isinstance(question, Ratio)
                and (place in (SEARCH, "random") or laboratory.knows(question, place))
            }
        }

    def close(self) -> None:
        """Releases the backends."""
        if self._laboratory is not None:
            self._laboratory.close()
        self._laboratory = None


def judged(row: Mapping[str, Any]) -> str:
    """Who is judged in a row: the network where it learned, else the search."""
    return next(place for place in ("network", SEARCH, "") if place in row["got"])


def is_inside(row: Mapping[str, Any], place: str | None = None) -> bool:
    """Whether what a row judges, or another one in its place, lies inside."""
    (target,) = choose([row["number"]])
    return not target.distance(row["got"][judged(row) if place is None else place])


def shown(rows: Rows, chosen: Sequence[Any]) -> dict[str, str]:
    """What the declared setting says of some verdicts' statements, in words; empty where nothing.

    Args:
        rows: of the study.
        chosen: with a ``target`` each.
    """
    of_number = {row["number"]: row for row in rows if row["case"] == DECLARED}
    texts = {one.target.number: "" for one in chosen}
    for number in texts:
        if (row := of_number.get(number)) is not None:
            texts[number] = ", ".join(
                f"{row['got'][place]:.3g}{f' by {PLACES[place]}' if place else ''}"
                for place in ("", "network", "best-logged", SEARCH)
                if place in row["got"] and (place != SEARCH or "network" not in row["got"])
            )
    return texts if any(texts.values()) else {}


def level_cases(rows: Rows) -> list[str]:
    """The switches under which all ratios are the same: all schedules serve alike."""
    values = {
        case: [row["got"][judged(row)] for row in of_case]
        for case, of_case in grouped(rows, "case").items()
    }
    return [case for case, ratios in values.items() if max(ratios) - min(ratios) < _SAME]


def _statements(rows: Rows) -> TableOfRows:
    """Every statement in the declared setting."""
    lines = []
    for row in rows:
        if row["case"] != DECLARED:
            continue
        (target,) = choose([row["number"]])
        got, who = row["got"], judged(row)
        inside = [PLACES[p] for p in got if p in PLACES and p != who and is_inside(row, p)]
        lines.append(
            {
                "target": target,
                "judged": PLACES.get(who, "a rule"),
                "value": got[who],
                "got": got,
                "verdict": "inside" if is_inside(row) else "outside",
                "others": ", ".join(inside),
            }
        )
    columns = {
        "no.": "{target.number}",
        "statement": "{target.statement}",
        "the paper has": "{target.expected}",
        "accepted": "{target.low:g} .. {target.high:g}",
        "judged": "{judged}",
        ">ours": "{value:.3f}",
        ">best logged file": "{got[best-logged]:.3f}",
        ">search": "{got[search]:.3f}",
        "verdict": "{verdict}",
        "inside as well": "{others}",
    }
    return table_of(lines, columns)


def _switches(rows: Rows) -> TableOfRows:
    """By switch how many statements lie inside, and which change sides."""
    declared = {row["number"]: is_inside(row) for row in rows if row["case"] == DECLARED}
    lines, level = [], level_cases(rows)
    for case, of_case in grouped(rows, "case").items():
        inside = {row["number"]: is_inside(row) for row in of_case}
        changed = [number for number in inside if inside[number] != declared[number]]
        lines.append(
            {
                "case": case,
                "inside": f"{sum(inside.values())} of {len(inside)}",
                "enter": ", ".join(n for n in changed if inside[n]),
                "leave": ", ".join(n for n in changed if not inside[n]),
                "remark": "all ratios are the same" if case in level else "",
            }
        )
    names = {">inside": "inside", "come inside": "enter", "leave": "leave", "": "remark"}
    return table_of(
        lines, {"setting": "{case}", **{words: f"{{{name}}}" for words, name in names.items()}}
    )


def summarise(settings: Settings, rows: Rows) -> dict[str, Any]:
    """How many statements lie inside in the declared setting, in all and by who is judged."""
    declared = [row for row in rows if row["case"] == DECLARED]
    learned = [row for row in declared if "network" in row["got"]]
    searched = [row for row in declared if SEARCH in row["got"] and is_inside(row, SEARCH)]
    return {
        "statements": len(declared),
        "inside": sum(map(is_inside, declared)),
        "learned": len(learned),
        "learned_inside": sum(map(is_inside, learned)),
        "retrieved_inside": sum(is_inside(row, "best-logged") for row in learned),
        "searched_inside": len(searched),
        "random_of_search": sum(is_inside(row, "random") for row in searched),
    }


TABLES = {"default": _statements, "switches": _switches}
