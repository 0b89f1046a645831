import pytest

from pmoss_benchmarks.validation import TARGETS, Laboratory, Target, choose, validate
from pmoss_env.errors import UnknownNameError


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
    first = laboratory.throughput(*case, "p-moss", "closed")
    backend = laboratory.backend(*case, "closed")
    assert laboratory.throughput(*case, "p-moss", "closed") == first
    assert laboratory.backend(*case, "closed") is backend
    assert first >= laboratory.throughput(*case, "lpt", "closed")
    assert laboratory.best("analytic", "toy", "ycsb-a", ("lpt", "grouped")) >= laboratory.mean(
        "analytic", "toy", "ycsb-a", ("lpt", "grouped")
    )
    laboratory.close()
