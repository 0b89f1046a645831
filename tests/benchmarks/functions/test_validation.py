from pathlib import Path

import pytest

from pmoss_benchmarks.functions.validation import (
    SWITCHES,
    Settings,
    Work,
    cells,
    verdicts,
)
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import Results
from pmoss_benchmarks.validation.targets import TARGETS
from pmoss_env.errors import UnknownNameError

RESULTS = Results(Path(__file__).resolve().parents[3])
#: A statement that each of these switches changes.
CHANGING = {
    "NUMA balancing": "15b",
    "search for the backlog": "12b",
    "first touch": "15b",
    "far as near": "15b",
    "caches 64 times as large": "15b",
}


def asked(*numbers: str, case: str = "as judged") -> dict[str, dict[str, list[float]]]:
    """The rows of a case by number, by the analytic model on one instance."""
    settings = Settings("analytic", (case,), numbers)
    work = Work(Run(settings, Path(), Path(), Path()))
    rows = {cell["number"]: work(cell) for cell in cells(settings)}
    work.close()
    return rows


def test_what_is_asked_is_known_before() -> None:
    numbers = [target.number for target in TARGETS if target.ask is not None]
    assert [cell["number"] for cell in cells(Settings("simulated", ("as judged",)))] == numbers
    assert {cell["case"] for cell in cells(Settings("analytic"))} == set(SWITCHES)
    assert cells(Settings("analytic", ("as judged",), ("22b",))) == []
    with pytest.raises(UnknownNameError, match="no overhed"):
        Settings("analytic", ("no overhed",))
    with pytest.raises(UnknownNameError, match="99"):
        Settings("simulated", numbers=("99",))


def test_a_switch_changes_what_a_statement_comes_to() -> None:
    usual = asked("12b", "15b")
    assert all(set(row) == {"got", "random"} for row in usual.values())
    got = {name: asked(number, case=name)[number]["got"] for name, number in CHANGING.items()}
    for name, number in CHANGING.items():
        assert got[name] != pytest.approx(usual[number]["got"]), name
    assert got["NUMA balancing"] < usual["15b"]["got"]
    assert got["search for the backlog"][0] > 1 > usual["12b"]["got"][0]
    spread, kept = asked("1", "14", case="queues interleaved"), asked("1", "14")
    assert spread["14"]["got"] < kept["14"]["got"], "OS:I alone has its queues elsewhere"
    assert spread["1"]["got"] >= kept["1"]["got"], "and it is what SE:N is compared with"
    routed = asked("7", case="original routers")
    assert routed["7"]["got"] == pytest.approx([1.0]), "routers are what all schedules wait for"


def test_no_hard_statement_lies_outside_its_range() -> None:
    rows = (RESULTS[name].rows for name in ("validation", "validation/switches"))
    of_all = verdicts(*rows).values()
    assert not [each for each in of_all if each.target.gate == "hard" and each.words == "outside"]
    # No learned policy is judged, and Random stands beside what is.
    assert sum(each.random is not None for each in of_all) >= 20
