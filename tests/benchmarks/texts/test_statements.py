"""What the switches of the studies show about statements that lie outside."""

import json
from pathlib import Path
from typing import Any

from pmoss_benchmarks.studies.plan import SWITCHES
from pmoss_benchmarks.texts.statements import moves, standing, tally, told
from pmoss_benchmarks.texts.stored import Stored

MADE = {
    "command": "pmoss benchmark studies --study switches",
    "version": "0.1.0",
    "machine": {"cpu_model": "a CPU", "cpus": 2},
    "code": {"modules": ["x"], "digests": {"x": "0"}},
}


def verdict(number: str, value: float, low: float = 2.0, high: float = 3.0) -> dict[str, Any]:
    return {
        "number": number,
        "statement": f"statement {number}",
        "expected": "2.5",
        "low": low,
        "high": high,
        "got": {"simulated": value, "analytic": value},
        "verdict": "inside" if low <= value <= high else "outside",
        "cause": "some reason",
    }


def stored(tmp_path: Path, verdicts: list[dict[str, Any]], **cases: dict[str, float]) -> Stored:
    """Results in which each switch gives these values."""
    usual = {one["number"]: one["got"]["analytic"] for one in verdicts}
    names = {name.replace(" ", "_"): name for name in SWITCHES}
    figures = [
        {
            "study": "switches",
            "case": names[name],
            "got": {number: [value] for number, value in {**usual, **changed}.items()},
            "random": {},
        }
        for name, changed in {"as_judged": {}, **cases}.items()
    ]
    folder = tmp_path / "benchmarks" / "results"
    switches = folder / "studies" / "switches" / "summary.json"
    switches.parent.mkdir(parents=True)
    switches.write_text(json.dumps({**MADE, "settings": {"instances": 1}, "figures": figures}))
    (folder / "validation.json").write_text(json.dumps({**MADE, "verdicts": verdicts}))
    return Stored(tmp_path)


def test_a_statement_stands_where_its_switches_bring_it(tmp_path: Path) -> None:
    verdicts = [verdict("1", 2.5), verdict("2", 1.0), verdict("3", 1.0), verdict("4", 1.0)]
    level = verdict("5", 0.9, 1.0, 10.0)
    results = stored(
        tmp_path,
        [*verdicts, level],
        no_overhead={"1": 3.5, "2": 2.2, "3": 1.4},
        closed_load={"3": 1.6, "4": 0.5, "5": 1.0},
        original_routers=dict.fromkeys("12345", 2.5),
    )
    found = {one["number"]: standing(one, results) for one in [*verdicts, level]}
    assert found == {
        "1": "inside",
        "2": "shown",
        "3": "in part",
        "4": "not shown",
        "5": "in part",
    }, "level with the end of a range is no order, and routers that tie all show nothing"
    assert [(one.case, round(one.closed, 2)) for one in moves(verdicts[2], results)] == [
        ("closed load", 0.6),
        ("no overhead", 0.4),
        ("the mean of 1 instance", 0.0),
    ]


def test_the_count_names_every_statement_once(tmp_path: Path) -> None:
    verdicts = [verdict("1", 2.5), verdict("2", 1.0)]
    results = stored(tmp_path, verdicts, no_overhead={"1": 3.5, "2": 2.2})
    text = tally({"1": "d1", "2": "d2"}, results)
    assert "| inside what is accepted | 1 | [1](d1.md) |" in text
    assert "| outside, and inside with a switch or over instances | 1 | [2](d2.md) |" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| no overhead |")]
    assert line.endswith("| 1 | 1 | 1 |"), "2 comes inside, and 1 leaves"
    page = told(verdicts, results)
    assert "- 2. Cause: some reason. Inside with: no overhead (2.2)." in page
    assert "**2.2**" in page and "**3.5**" not in page
