from pathlib import Path

import pytest

from pmoss_benchmarks.functions.validation import CASES, Settings, Work, cells, verdicts
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import Results
from pmoss_benchmarks.validation.targets import TARGETS
from pmoss_env.errors import UnknownNameError

RESULTS = Results(Path(__file__).resolve().parents[3])


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
    assert {cell["case"] for cell in cells(Settings("analytic"))} == set(CASES)
    assert cells(Settings("analytic", ("as judged",), ("22b",))) == []
    with pytest.raises(UnknownNameError, match="no overhed"):
        Settings("analytic", ("no overhed",))
    with pytest.raises(UnknownNameError, match="99"):
        Settings("simulated", numbers=("99",))


def test_a_case_changes_what_a_statement_comes_to() -> None:
    usual, without = asked("12b", "15b"), asked("12b", "15b", case="no overhead")
    for number, row in usual.items():
        assert set(row) == {"got", "random"}
        assert row["got"] != pytest.approx(without[number]["got"])


def test_no_hard_statement_lies_outside_its_range() -> None:
    of_all = verdicts(*(RESULTS[name].rows for name in ("validation", "validation/model"))).values()
    assert not [each for each in of_all if each.target.gate == "hard" and each.words == "outside"]
    # No learned policy is judged, and Random stands beside what is.
    assert sum(each.random is not None for each in of_all) >= 20
