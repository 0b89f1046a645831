"""One declared setting: who stands in the place of P-MOSS, and what a switch changes."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from pmoss_benchmarks.functions import declared
from pmoss_benchmarks.functions.declared import DECLARED, SWITCHES, Settings, Work, cells, is_inside
from pmoss_benchmarks.study import Run
from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_env.machines import load_machine


@pytest.fixture
def run(monkeypatch):
    machine = load_machine("milan-nps4")
    rng = np.random.default_rng(0)
    answers = [rng.choice(machine.workers, 256) for _ in range(2)]
    spread = machine.workers[np.arange(256) % machine.workers.size]
    of_pair = {("milan-nps4", "lookups"): [*answers, spread]}
    monkeypatch.setattr(declared, "answers_of", lambda results, studies: of_pair)
    return Run(Settings(authors=()), Path(), Path(), Path())


def test_the_statements_are_those_that_compare_schedules():
    numbers = {cell["number"] for cell in cells(Settings())}
    assert {"1", "9", "12a", "20"} <= numbers and len(numbers) == 36
    assert len(cells(Settings())) == 36 * len(SWITCHES)
    assert next(iter(SWITCHES)) == DECLARED


def test_every_switch_and_reason_is_of_a_laboratory():
    for changes in [declared._FILE["setting"], *SWITCHES.values()]:
        Laboratory(**changes).close()
    assert all(reason.endswith(".") for reason in declared.REASONS.values())


def test_who_learned_is_judged_where_it_learned(run):
    work = Work(run)
    learned = {"number": "12b", **work({"case": DECLARED, "number": "12b"})}
    assert set(learned["got"]) == set(declared.PLACES)
    assert learned["got"]["best-answer"] >= learned["got"]["network"]
    assert declared.judged(learned) == "network"
    searched = {"number": "12a", **work({"case": DECLARED, "number": "12a"})}
    assert set(searched["got"]) == {"search", "random"} and declared.judged(searched) == "search"
    ruled = {"number": "11b", **work({"case": DECLARED, "number": "11b"})}
    assert set(ruled["got"]) == {""} and declared.judged(ruled) == ""
    work.close()
    rows = [{"case": case, **row} for case in list(SWITCHES)[:2] for row in (learned, ruled)]
    assert len(declared.TABLES["default"](rows).rows) == 2
    assert [line[0] for line in declared.TABLES["switches"](rows).rows] == list(SWITCHES)[:2]
    summary = declared.summarise(run.settings, rows)
    assert summary["statements"] == 2 and summary["learned"] == 1
    assert summary["learned_inside"] == is_inside(learned)
