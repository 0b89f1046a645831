import json
from pathlib import Path

import pytest

from pmoss_benchmarks.validation import TARGETS, Laboratory, Target, choose, read_targets, validate
from pmoss_env.errors import DescriptionError, UnknownNameError


def constant(value: float) -> Target:
    return Target("x", "a statement", "here", "hard", 1.0, 2.0, "1.5", lambda lab, f: value)


def test_verdicts_follow_the_tolerance_and_the_simulator() -> None:
    absent = Target("y", "a statement", "here", "hard", 1.0, 2.0, "1.5", None, "not built")
    split = Target(
        "z", "a statement", "here", "hard", 1.0, 2.0, "1.5", lambda lab, f: 1.5 + (f == "analytic")
    )
    verdicts = validate(Laboratory(), [constant(1.0), constant(2.01), absent, split])
    assert [v.inside for v in verdicts] == [True, False, None, True]
    assert [v.words for v in verdicts] == ["inside", "outside", "not modelled", "inside"]
    assert verdicts[3].got == {"analytic": 2.5, "simulated": 1.5}
    assert "ask" not in verdicts[0].as_dict()


def test_random_stands_beside_the_search_that_stands_for_the_policy() -> None:
    asked = []

    def ask(name: str):
        return lambda lab, f: asked.append((name, lab.overhead_cycles)) or 1.5

    target = Target("x", "s", "here", "hard", 1.0, 2.0, "1.5", ask("search"), "", ask("random"))
    (verdict,) = validate(Laboratory(), [target])
    told = verdict.as_dict()
    assert told["judged_by"] == "search"
    assert told["random"] == {"analytic": 1.5, "simulated": 1.5}
    assert told["random_inside"] is True
    assert told["without_overhead"] == {"analytic": 1.5}
    assert sorted(set(asked)) == [("random", 500.0), ("search", 0.0), ("search", 500.0)]
    assert "judged_by" not in validate(Laboratory(), [constant(1.0)])[0].as_dict()


def test_every_statement_on_p_moss_has_random_beside_it() -> None:
    for target in TARGETS:
        about = "P-MOSS" in target.statement and "closest" not in target.statement
        assert (target.ask_random is not None) == about, target.statement


def test_targets_are_well_formed() -> None:
    numbers = [target.number for target in TARGETS]
    assert len(set(numbers)) == len(numbers)
    for target in TARGETS:
        assert target.low < target.high, target.number
        assert target.ask is not None or target.cause, target.number
    assert [t.number for t in choose(["4", "2"])] == ["4", "2"]
    with pytest.raises(UnknownNameError, match="99"):
        choose(["99"])


def test_the_laboratory_measures_each_combination_once() -> None:
    laboratory = Laboratory(slices=8, budget=50)
    case = ("analytic", "toy", "ycsb-a")
    first = laboratory.throughput(*case, "search", "closed")
    backend = laboratory.backend(*case, "closed")
    assert laboratory.throughput(*case, "search", "closed") == first
    assert laboratory.backend(*case, "closed") is backend
    assert first >= laboratory.throughput(*case, "lpt", "closed")
    several = laboratory.throughputs(*case, ("lpt", "grouped"))
    assert several == [laboratory.throughput(*case, name) for name in ("lpt", "grouped")]
    laboratory.close()


GOOD = """
[[target]]
number = "1"
statement = "s"
source = "here"
gate = "hard"
low = 1.0
high = 2.0
expected = "1.5"
ask = { question = "hottest-share", machine = "toy", workload = "lookups", schedule = "lpt" }
"""


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"hard"', '"firm"', r"Invalid enum value 'firm' - at `\$.target\[0\].gate`"),
        ("high = 2.0", "high = 0.5", "low = 1: must be below 0.5"),
        ('"hottest-share"', '"hottest"', "Invalid value 'hottest'"),
        ('machine = "toy", ', "", "missing required field `machine`"),
        ('statement = "s"', 'statement = "s"\nmore = 1', "unknown field `more`"),
        ("ask =", "# ask =", "ask: is missing"),
    ],
)
def test_a_statement_that_is_not_well_formed_is_named(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    (target,) = read_targets(tmp_path)
    assert target.ask is not None
    share = target.ask(Laboratory(slices=8), "analytic")
    assert 1 / 8 <= share < 1
    (tmp_path / "mine.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(DescriptionError, match=f"mine.toml: .*{reason}"):
        read_targets(tmp_path)
    (tmp_path / "mine.toml").write_text(GOOD + GOOD)
    with pytest.raises(DescriptionError, match="number = '1': is there twice"):
        read_targets(tmp_path)


COMMITTED = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "validation.json"


def test_statements_are_those_of_the_committed_verdicts() -> None:
    verdicts = json.loads(COMMITTED.read_text())["verdicts"]
    told = {verdict.pop("number"): verdict for verdict in verdicts}
    assert set(told) == {target.number for target in TARGETS}
    for target in TARGETS:
        fields = ("statement", "source", "gate", "low", "high", "expected")
        assert all(told[target.number][name] == getattr(target, name) for name in fields)


@pytest.mark.parametrize("number", ["21", "22a", "22b", "26a", "27", "31"])
def test_answers_are_those_of_the_committed_verdicts(number: str) -> None:
    """A few that take seconds; ``pmoss benchmark validation`` asks all."""
    (target,) = choose([number])
    (told,) = (v for v in json.loads(COMMITTED.read_text())["verdicts"] if v["number"] == number)
    assert target.ask is not None
    assert target.ask(Laboratory(), "simulated") == told["got"]["simulated"]
