"""One declared setting: who stands in the place of P-MOSS, and what a switch changes."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from pmoss_benchmarks.functions import declared
from pmoss_benchmarks.functions.declared import DECLARED, SWITCHES, Settings, Work, cells, is_inside
from pmoss_benchmarks.offline.episodes import pack_episodes
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_benchmarks.validation.questions import in_place_of_search
from pmoss_env.machines import load_machine


@pytest.fixture
def run(monkeypatch):
    machine = load_machine("milan-nps4")
    rng = np.random.default_rng(0)
    tiles = [machine.tile_of_core[rng.choice(machine.workers, 256)] for _ in range(3)]
    even = machine.tile_of_core[machine.workers[np.arange(256) % machine.workers.size]]
    row = {
        "schedules": {
            "files": pack_episodes([*tiles, even]),
            "network": pack_episodes(tiles[:2]),
            "surrogate": pack_episodes([even]),
            "generalist": pack_episodes(tiles[1:]),
        },
        "logged": [1.0, 2.0, 1.5, 3.0],
        "missing": {},
    }
    unseen = {
        "schedules": {"generalist": row["schedules"]["surrogate"]},
        "missing": dict.fromkeys(("files", "surrogate", "network"), "no files of this server"),
    }
    of_pairs = {("milan-nps4", "lookups"): row, ("milan-nps4", "ycsb-a"): unseen}
    monkeypatch.setattr(declared, "answers_of", lambda results, study: of_pairs)
    return Run(Settings(), Path(), Path(), Path())


def test_the_statements_are_those_that_compare_schedules():
    numbers = {cell["number"] for cell in cells(Settings())}
    assert {"1", "9", "12a", "20"} <= numbers and len(numbers) == 36
    assert len(cells(Settings())) == 36 * len(SWITCHES)
    assert next(iter(SWITCHES)) == DECLARED


def test_every_switch_and_reason_is_of_a_laboratory():
    for changes in [declared._FILE["setting"], *SWITCHES.values()]:
        Laboratory(**changes).close()
    assert all(reason.endswith(".") for reason in declared.REASONS.values())


def test_whoever_has_schedules_stands_in_the_place_of_p_moss(run):
    work = Work(run)
    learned = {"number": "12b", **work({"case": DECLARED, "number": "12b"})}
    got = learned["got"]
    assert set(got) == set(declared.PLACES) and not learned["missing"]
    assert got["network:0"] >= got["network:1"] and got["files:1"] < got["files:3"]
    # Four files: the best of ten is the best of all. The log says which one is retrieved.
    assert got["files:10"] == got["files:0"] and got["best-logged"] == got["surrogate:1"]
    assert learned["gain"]["best-logged"] == pytest.approx(got["best-logged"] / got["named"])
    unseen = {"number": "12a", **work({"case": DECLARED, "number": "12a"})}
    assert unseen["missing"]["network:1"] == "milan-nps4: no files of this server"
    assert {"generalist:1", "search", "random", "named"} == set(unseen["got"])
    assert not is_inside(unseen, "network:1")
    ruled = {"number": "11b", **work({"case": DECLARED, "number": "11b"})}
    assert set(ruled["got"]) == {""} and is_inside(ruled, "network:1") == is_inside(ruled)
    switched = work({"case": "no overhead", "number": "12b"})
    assert set(switched["got"]) == {"best-logged", "search", "random"}
    work.close()
    rows = [{"case": DECLARED, **row} for row in (learned, unseen, ruled)]
    texts = declared.TABLES["default"](rows)
    assert len(texts.rows) == 3 and texts.rows[1].count("not played") == 4
    assert [line[0] for line in declared.TABLES["factors"](rows).rows] == ["12b"]
    summary = declared.summarise(run.settings, rows)
    network = summary["network_1"]
    assert summary["statements"] == 3 and network["asked"] == network["missing"] == 1
    rows += [{"case": "no overhead", "number": "12b", **switched}]
    assert [line[0] for line in declared.TABLES["switches"](rows).rows] == [DECLARED, "no overhead"]


def test_who_is_divided_by_itself_is_not_inside():
    # 12d accepts 0.95 to 1: the best over itself is 1, whatever it serves.
    assert declared.choose(["12d"])[0].high == 1.0
    row = {"number": "12d", "got": {"random": 1.0, "named": 1.0, "search": 1.0}}
    assert is_inside(row, "search")
    assert not is_inside(row, "random") and not is_inside(row, "named")
    # 18 divides by the mean of a set: that is no ratio to itself.
    assert is_inside({"number": "18", "got": {"random": 1.2}}, "random")


def test_a_widest_gap_and_a_ratio_turned_over_are_asked_as_well():
    widest, turned = (declared.choose([number])[0].ask for number in ("9", "19a"))
    assert "files:3" in in_place_of_search(widest, ("files:3",)).schedules
    assert in_place_of_search(turned, declared.NAMED).others == declared.NAMED
    assert in_place_of_search(declared.choose(["10a"])[0].ask, ("random",)) is None
    assert ("rome-7302", "ycsb-a") in declared.pairs()
