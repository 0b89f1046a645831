"""Stored schedules, played again under a backlog and beside a baseline."""

from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.functions import counter_changes, play, served
from pmoss_benchmarks.functions.served import starved_share
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import StoredStudy
from pmoss_datasets.suite import TOY
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError


@pytest.fixture
def results(tmp_path: Path) -> Path:
    settings = play.Settings(
        tasks=(TOY,), policies=("grouped", "lpt-capacity"), seeds=1, episodes=2, search_budget=20
    )
    work = play.Work(Run(settings, tmp_path, tmp_path, tmp_path))
    rows = [{"cell": str(c), "run": "x", **c, **work(c)} for c in play.cells(settings)]
    keys = ["track", "task", "policy", "seed"]
    StoredStudy(
        tmp_path / "first.jsonl", "first", {"search_budget": 20}, keys, {"x": {}}, rows
    ).write()
    return tmp_path


def run(results: Path, settings: object) -> Run:
    return Run(settings, results, results, results)


def test_stored_schedules_serve_what_was_recorded(results: Path) -> None:
    settings = served.Settings("first", "same-task", (TOY,))
    (cell,) = served.cells(settings)
    row = served.measure(run(results, settings), cell)
    assert (row["machine"], row["load"]) == ("toy", "closed")
    means = served.means_of(row)
    assert set(means) == {"grouped", "lpt-capacity"}
    assert all(0 < one["mix"] <= 1.0001 * one["served"] for one in means.values())
    with pytest.raises(DatasetError, match="has no rows of"):
        served.measure(run(results, served.Settings("first", "noise", (TOY,))), cell)


def test_a_slice_is_starved_below_half_of_its_share() -> None:
    served, offered = np.array([4.0, 0.4, 1.0, 0.0]), np.array([0.5, 0.25, 0.25, 0.0])
    assert starved_share(served, offered) == pytest.approx(1 / 3)


def test_what_comes_out_different_is_refused(results: Path) -> None:
    path = results / "first.jsonl"
    lines = [line.rpartition(', "row_crc32"') for line in path.read_text().splitlines()]
    plain = [f"{head}}}" if seal else tail for head, seal, tail in lines]
    path.write_text("\n".join(plain).replace('"throughput": [', '"throughput": [1.5, ') + "\n")
    settings = served.Settings("first", "same-task", (TOY,))
    with pytest.raises(DatasetError, match=r"episode 0: stored 1\.5 Mq/s"):
        served.measure(run(results, settings), {"task": TOY})


def test_counters_are_compared_with_a_baseline(results: Path) -> None:
    settings = counter_changes.Settings(
        "first", "same-task", (TOY,), ("lpt-capacity",), before="grouped", episodes=2
    )
    (cell,) = counter_changes.cells(settings)
    row = counter_changes.measure(run(results, settings), cell)
    assert len(row["measured"]) == 2 and row["counters"]
    before, after = row["measured"][0]["throughput"]
    assert before > 0 and after > 0 and set(row["cores"]) == set(row["counters"])
    many = counter_changes.Settings("first", "same-task", (TOY,), ("lpt-capacity",), episodes=3)
    with pytest.raises(DatasetError, match="fewer than 3 episodes"):
        counter_changes.measure(run(results, many), cell)
    with pytest.raises(DescriptionError, match="beside itself"):
        counter_changes.Settings("first", "same-task", (TOY,), ("lpt",), before="lpt")
    with pytest.raises(UnknownNameError, match="no-rule"):
        counter_changes.Settings("first", "same-task", (TOY,), ("lpt",), before="no-rule")
