"""What the study ``declared`` comes to: who holds which statement, and what a gain is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pmoss_benchmarks.study.function import Rows
from pmoss_benchmarks.study.tables import TableOfRows, grouped, table_of
from pmoss_benchmarks.validation.laboratory import SEARCH
from pmoss_benchmarks.validation.targets import choose

DECLARED = "as declared"
#: Of a number of measured schedules the best counts; this stands for all there are.
ALL = 0
BEST_LOGGED, OF_NAMED = "best-logged", "named"
#: Who stands in the place of P-MOSS, and how that is called. "KIND:k" is the best of k measured
#: schedules of a kind; with k = 1 it is their mean.
PLACES = {
    "network:1": "the network",
    f"network:{ALL}": "the best of its answers",
    "surrogate:1": "the surrogate",
    "generalist:1": "the generalist",
    BEST_LOGGED: "the best logged file",
    "files:1": "a random file",
    "files:3": "the best of 3 files",
    "files:10": "the best of 10 files",
    f"files:{ALL}": "the best file in hindsight",
    SEARCH: "search",
    OF_NAMED: "the best of Grouped, Mixed and Spread",
    "random": "Random",
}
#: What each of them is.
FACTORS = {
    "network:1": "learning",
    f"network:{ALL}": "learning, then selection",
    "surrogate:1": "learning, with the files of the server",
    "generalist:1": "learning, with made-up servers",
    BEST_LOGGED: "retrieval, by the log",
    "files:1": "chance",
    "files:3": "selection, by measuring 3",
    "files:10": "selection, by measuring 10",
    f"files:{ALL}": "selection, by measuring all",
    SEARCH: "search in the model",
    OF_NAMED: "rules, by measuring 3",
    "random": "chance",
}
#: Ratios that differ by less are all the same: nothing but the switch decides them.
_SAME = 0.01


def is_inside(row: Mapping[str, Any], place: str = SEARCH) -> bool:
    """Whether a statement holds with someone in the place of P-MOSS, or as it is where no one is.

    A place that has no schedule is not inside.
    """
    (target,) = choose([row["number"]])
    got = row["got"]
    return not target.distance(got.get(place, got.get("", np.inf)))


def shown(rows: Rows, chosen: Sequence[Any]) -> dict[str, str]:
    """What the declared setting says of some verdicts' statements, in words; empty where nothing.

    Args:
        rows: of the study.
        chosen: with a ``target`` each.
    """
    of_number = {row["number"]: row for row in rows if row["case"] == DECLARED}
    texts = {each.target.number: "" for each in chosen}
    for number in texts:
        if (row := of_number.get(number)) is not None:
            texts[number] = ", ".join(
                f"{row['got'][place]:.3g}{f' by {PLACES[place]}' if place else ''}"
                for place in ("", "network:1", "surrogate:1", "generalist:1", BEST_LOGGED, SEARCH)
                if place in row["got"]
            )
    return texts if any(texts.values()) else {}


def held(rows: Rows, numbers: Sequence[str], place: str = SEARCH) -> list[str]:
    """Which of some statements hold in the declared setting."""
    mine = [row for row in _declared(rows) if row["number"] in numbers]
    return [row["number"] for row in mine if is_inside(row, place)]


def level_cases(rows: Rows) -> list[str]:
    """The switches under which all ratios are the same: all schedules serve alike."""
    values = {
        case: [row["got"].get(SEARCH, row["got"].get("")) for row in of_case]
        for case, of_case in grouped(rows, "case").items()
    }
    return [case for case, ratios in values.items() if max(ratios) - min(ratios) < _SAME]


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
    for place, words in PLACES.items():
        asked = [row for row in policies if place in row["got"]]
        inside = [row for row in asked if is_inside(row, place)]
        line: dict[str, Any] = {
            "place": place,
            "words": words,
            "what": FACTORS[place],
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


def summary_of(rows: Rows) -> dict[str, Any]:
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
