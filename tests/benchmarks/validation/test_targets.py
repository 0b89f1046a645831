"""Published statements and figures: chosen, measured, judged."""

import pytest

from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_benchmarks.validation.targets import TARGETS, choose, judge, read_targets
from pmoss_env.errors import DescriptionError, UnknownNameError


def test_statements_are_chosen_by_number() -> None:
    assert [t.number for t in choose(["4", "2"])] == ["4", "2"]
    assert choose([]) == list(TARGETS)
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
        ('"hard"', '"firm"', r"target\[0\].gate: invalid enum value 'firm'"),
        ("high = 2.0", "high = 0.5", "low = 1: must be below 0.5"),
        ('"hottest-share"', '"hottest"', "invalid value 'hottest'"),
        ('machine = "toy", ', "", r"target\[0\].ask.machine: is missing"),
        ('statement = "s"', 'statement = "s"\nmore = 1', r"target\[0\].more: unknown"),
        ("ask =", "# ask =", "ask: is missing"),
    ],
)
def test_a_statement_that_is_not_well_formed_is_named(tmp_path, old, new, reason):
    (tmp_path / "mine.toml").write_text(GOOD)
    (target,) = read_targets(tmp_path)
    assert target.ask is not None
    assert 1 / 8 <= target.ask.ask(Laboratory(slices=8), "analytic") < 1
    (tmp_path / "mine.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(DescriptionError, match=f"mine.toml: .*{reason}"):
        read_targets(tmp_path)
    (tmp_path / "mine.toml").write_text(GOOD + GOOD)
    with pytest.raises(DescriptionError, match="number = '1': is there twice"):
        read_targets(tmp_path)


def test_a_figure_is_judged_by_its_range_and_no_evidence_where_it_was_fitted(tmp_path):
    path = tmp_path / "figures.toml"
    figures = [
        'statement = "a"\nlow = 0.5\nhigh = 1.0',
        'statement = "b of {name}"\nlow = 0.5\nhigh = 1.0',
        'what = "c"\nlow = 0.5\nhigh = 1.0\nfitted = true',
        'what = "d"\nlow = 0.5\nhigh = 1.0\nbasis = "a parameter"',
    ]
    path.write_text("[usual]\ncause = ''\n[[figure]]\n" + "\n[[figure]]\n".join(figures))
    ours = {"a": 1.0, "b of x": 1.1, "c": 1.1, "d": 0.7}
    judged = judge(path, ours, name="x")
    assert [row["verdict"] for row in judged] == ["inside", "outside", "fitted", "fitted"]
    assert [row["ours"] for row in judged] == list(ours.values())
    assert judged[1]["statement"] == "b of x" and judged[1]["cause"] == ""
    for wrong in ({"a": 1.0}, {**ours, "e": 1.0}):
        with pytest.raises(DescriptionError, match="needs a figure and a value"):
            judge(path, wrong, name="x")
