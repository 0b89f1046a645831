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

import numpy as np

from pmoss_benchmarks.offline.episodes import unpack_episodes
from pmoss_benchmarks.spatial.author_tables import NAMED, best_of_random
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run, check_names
from pmoss_benchmarks.study.store import file_of, read_stored
from pmoss_benchmarks.study.tables import TableOfRows, grouped, table_of
from pmoss_benchmarks.validation.laboratory import SEARCH, Laboratory
from pmoss_benchmarks.validation.questions import LargestGap, Ratio, are_level, in_place_of_search
from pmoss_benchmarks.validation.targets import TARGETS, Target, choose
from pmoss_env.files import read_toml
from pmoss_env.machines import load_machine
from pmoss_env.types import Schedule

DECLARED = "as declared"
#: Of a number of measured schedules the best counts; this stands for all there are.
ALL = 0
BEST_LOGGED, OF_NAMED = "best-logged", "named"
#: Who stands in the place of P-MOSS: how that is called, and what it is. "KIND:k" is the best of k
#: measured schedules of a kind; with k = 1 it is their mean.
PLACES = {
    "network:1": ("the network", "learning"),
    f"network:{ALL}": ("the best of its answers", "learning, then selection"),
    "surrogate:1": ("the surrogate", "learning, with the files of the server"),
    "generalist:1": ("the generalist", "learning, with made-up servers"),
    BEST_LOGGED: ("the best logged file", "retrieval, by the log"),
    "files:1": ("a random file", "chance"),
    "files:3": ("the best of 3 files", "selection, by measuring 3"),
    "files:10": ("the best of 10 files", "selection, by measuring 10"),
    f"files:{ALL}": ("the best file in hindsight", "selection, by measuring all"),
    SEARCH: ("search", "search in the model"),
    OF_NAMED: ("the best of Grouped, Mixed and Spread", "rules, by measuring 3"),
    "random": ("Random", "chance"),
}
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
    asked = [in_place_of_search(target.ask, (SEARCH,)) for target in statements()]
    every = [(machine, each.workload) for each in asked if each for machine in each.machines]
    return list(dict.fromkeys(every))


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
        if in_place_of_search(target.ask, (SEARCH,)) is None:
            return {"got": {"": target.ask.ask(laboratory, "analytic")}}
        declared = cell["case"] == DECLARED
        row: Row = {"got": {}, **({"missing": {}, "gain": {}} if declared else {})}
        for place in PLACES if declared else _ALWAYS:
            if reason := laboratory.missing(target.ask, place):
                if declared:
                    row["missing"][place] = reason
                continue
            names = NAMED if place == OF_NAMED else (place,)
            question = in_place_of_search(target.ask, names)
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


def is_inside(row: Mapping[str, Any], place: str = SEARCH) -> bool:
    """Whether a statement holds with someone in the place of P-MOSS, or as it is where no one is.

    A place that has no schedule is not inside. Nor is one that the statement divides by, too: the
    ratio to the best of a set that holds itself is 1 at most, whatever it serves.
    """
    (target,) = choose([row["number"]])
    got, ask = row["got"], target.ask
    names = {*(NAMED if place == OF_NAMED else (place,))}
    others = {*ask.others} if isinstance(ask, Ratio) and ask.over == "best" else set()
    if "" not in got and names <= others:
        return False
    return not target.distance(got.get(place, got.get("", np.inf)))


def shown(rows: Rows, chosen: Sequence[Any]) -> dict[str, str]:
    """What the declared setting says of some verdicts' statements, in words; empty where nothing.

    Args:
        chosen: with a ``target`` each.
    """
    of_number = {row["number"]: row for row in rows if row["case"] == DECLARED}
    texts = {each.target.number: "" for each in chosen}
    for number in texts:
        if (row := of_number.get(number)) is not None:
            texts[number] = ", ".join(
                f"{row['got'][place]:.3g}{f' by {PLACES[place][0]}' if place else ''}"
                for place in ("", "network:1", "surrogate:1", "generalist:1", BEST_LOGGED, SEARCH)
                if place in row["got"]
            )
    return texts if any(texts.values()) else {}


def held(rows: Rows, numbers: Sequence[str]) -> list[str]:
    """Which of some statements hold in the declared setting."""
    mine = [row for row in _declared(rows) if row["number"] in numbers]
    return [row["number"] for row in mine if is_inside(row)]


def level_cases(rows: Rows) -> list[str]:
    """The switches under which all ratios are the same: all schedules serve alike."""
    values = {
        case: [row["got"].get(SEARCH, row["got"].get("")) for row in of_case]
        for case, of_case in grouped(rows, "case").items()
    }
    return [case for case, ratios in values.items() if are_level(ratios)]


def _declared(rows: Rows) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["case"] == DECLARED]


def _statements(rows: Rows) -> TableOfRows:
    """Every statement in the declared setting; bold figures lie inside."""
    lines = []
    for row in _declared(rows):
        (target,) = choose([row["number"]])
        shown_of = {
            place: f"**{value:.3f}**" if is_inside(row, place) else f"{value:.3f}"
            for place, value in row["got"].items()
        }
        for place in row.get("missing", ()):
            shown_of[place] = "not played"
        lines.append({"target": target, "rule": shown_of.get("", ""), "got": shown_of})
    columns = {
        "no.": "{target.number}",
        "statement": "{target.statement}",
        "the paper has": "{target.expected}",
        "accepted": "{target.low:g} .. {target.high:g}",
        ">rules": "{rule}",
        ">network": "{got[network:1]}",
        ">surrogate": "{got[surrogate:1]}",
        ">generalist": "{got[generalist:1]}",
        ">best logged file": "{got[best-logged]}",
        ">best of 10 files": "{got[files:10]}",
        ">search": "{got[search]}",
        ">Random": "{got[random]}",
    }
    return table_of(lines, columns)


def standing(rows: Rows) -> list[dict[str, Any]]:
    """By place how many statements hold.

    Returns:
        By place, of the statements about P-MOSS: in how many it was ``asked`` and is ``missing``.
        Of those asked, how many lie ``inside``, and do so with ``random`` and with the best logged
        file, ``retrieved``. How many other statements hold is ``rules``, and with them ``all``.
    """
    declared = _declared(rows)
    ruled = [row for row in declared if "" in row["got"]]
    policies = [row for row in declared if "" not in row["got"]]
    lines = []
    for place, (words, what) in PLACES.items():
        asked = [row for row in policies if place in row["got"]]
        inside = [row for row in asked if is_inside(row, place)]
        line: dict[str, Any] = {
            "place": place,
            "words": words,
            "what": what,
            "asked": len(asked),
            "inside": len(inside),
            "missing": len(policies) - len(asked),
            "random": sum(is_inside(row, "random") for row in asked),
            "retrieved": sum(is_inside(row, BEST_LOGGED) for row in asked),
            "rules": sum(map(is_inside, ruled)),
        }
        lines.append({**line, "all": line["inside"] + line["rules"]})
    return lines


def _standing(rows: Rows) -> TableOfRows:
    """Who stands in the place of P-MOSS, and how many statements hold then."""
    count = len(_declared(rows))
    columns = {
        "in the place of P-MOSS": "{words}",
        "what that is": "{what}",
        ">played": "{asked}",
        ">inside": "{inside}",
        ">of these with the best logged file": "{retrieved}",
        ">of these with Random": "{random}",
        ">not played": "{missing}",
        f">with the rules, of {count}": "{all}",
    }
    return table_of(standing(rows), columns)


def _factors(rows: Rows) -> TableOfRows:
    """What a gain over the best of Grouped, Mixed and Spread is made of, by statement."""
    lines = []
    for row in _declared(rows):
        gain = row.get("gain", {})
        if BEST_LOGGED not in gain:
            continue
        (target,) = choose([row["number"]])
        retrieved = gain[BEST_LOGGED]
        line = {"target": target, "retrieval": retrieved, "gain": gain}
        for kind in ("network", "surrogate", "generalist"):
            if f"{kind}:1" in gain:
                line[kind] = gain[f"{kind}:1"] / retrieved
        if "network:1" in gain:
            line["selection"] = gain[f"network:{ALL}"] / gain["network:1"]
        lines.append(line)
    columns = {
        "no.": "{target.number}",
        "statement": "{target.statement}",
        ">retrieval": "{retrieval:.3f}",
        ">learning: network": "{network:.3f}",
        ">selection of its answers": "{selection:.3f}",
        ">learning: surrogate": "{surrogate:.3f}",
        ">learning: generalist": "{generalist:.3f}",
        ">a random file": "{gain[files:1]:.3f}",
        ">best of 3": "{gain[files:3]:.3f}",
        ">best of 10": "{gain[files:10]:.3f}",
        ">hindsight": f"{{gain[files:{ALL}]:.3f}}",
        ">search": "{gain[search]:.3f}",
    }
    return table_of(lines, columns)


def behind(rows: Rows) -> dict[str, int]:
    """Of all means of what learned, ``cells``, how many serve less than the best logged file."""
    gains = [row["gain"] for row in _declared(rows) if BEST_LOGGED in row.get("gain", {})]
    means = [
        gain[place] < gain[BEST_LOGGED]
        for gain in gains
        for place in ("network:1", "surrogate:1", "generalist:1")
        if place in gain
    ]
    return {"cells": len(means), "behind": sum(means)}


def without_files(rows: Rows) -> list[str]:
    """The servers of statements that have no logged files."""
    missing = [
        row["missing"][BEST_LOGGED]
        for row in _declared(rows)
        if BEST_LOGGED in row.get("missing", ())
    ]
    return sorted({reason.partition(":")[0] for reason in missing})


def _switches(rows: Rows) -> TableOfRows:
    """By switch how many statements lie inside with a search, and which change sides."""
    declared = {row["number"]: is_inside(row) for row in _declared(rows)}
    lines, level = [], level_cases(rows)
    for case, of_case in grouped(rows, "case").items():
        inside = {row["number"]: is_inside(row) for row in of_case}
        changed = [number for number in inside if inside[number] != declared[number]]
        retrieved = [is_inside(row, BEST_LOGGED) for row in of_case]
        lines.append(
            {
                "case": case,
                "inside": f"{sum(inside.values())} of {len(inside)}",
                "retrieved": sum(retrieved),
                "random": sum(is_inside(row, "random") for row in of_case),
                "enter": ", ".join(n for n in changed if inside[n]),
                "leave": ", ".join(n for n in changed if not inside[n]),
                "remark": "all ratios are the same" if case in level else "",
            }
        )
    columns = {
        "setting": "{case}",
        ">inside with a search": "{inside}",
        "come inside": "{enter}",
        "leave": "{leave}",
        ">inside with the best logged file": "{retrieved}",
        ">with Random": "{random}",
        "": "{remark}",
    }
    return table_of(lines, columns)


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """How many statements there are, and by place what standing() gives of it."""
    return {
        "statements": len(_declared(rows)),
        **{line["place"].replace("-", "_").replace(":", "_"): line for line in standing(rows)},
    }


TABLES = {
    "default": _statements,
    "standing": _standing,
    "factors": _factors,
    "switches": _switches,
}
