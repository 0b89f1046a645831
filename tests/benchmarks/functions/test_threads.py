"""Threads: the published tables, stored runs, and what changes a figure."""

from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.functions.thread_conditions import Settings, measure
from pmoss_benchmarks.functions.threads import TABLE_1
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import Results
from pmoss_benchmarks.threads.studies import METHODS, compare, times_by_remote_share

(STORED,) = Results(Path(__file__).resolve().parents[3])["threads"].rows


def test_table_1_comes_out():
    ours = times_by_remote_share(tuple(TABLE_1))
    for share, seconds in TABLE_1.items():
        assert ours[share] == pytest.approx(seconds / TABLE_1[0.0], abs=0.015)


def test_the_hybrid_wins_the_sum_of_the_seven_programs():
    runs = STORED["runs"]
    assert len(runs) == 7
    total = {
        method: sum(np.mean([run["seconds"] for run in runs[p][method]]) for p in runs)
        for method in METHODS
    }
    assert min(total, key=total.__getitem__) == "hybrid"


@pytest.mark.parametrize(("program", "method"), [("readseq", "hybrid"), ("mixed90", "linucb")])
def test_committed_runs_replay_to_the_last_bit(program, method):
    got = compare([program], [method], seeds=1).runs[program][method][0]
    assert got == STORED["runs"][program][method][0]


RESULTS = Results(Path(__file__).resolve().parents[3])
JUDGED = RESULTS["threads"].rows[0]["statements"]


def test_a_faster_scheduler_saves_more_of_the_late_requests() -> None:
    run = Run(Settings(seeds=1), Path(), Path(), Path())
    usual, hasty, one_link = (
        measure(run, {"kind": "cause", "case": case})["got"]
        for case in ("as judged", "eight decisions a second", "half of the link")
    )
    names = {row["statement"] for row in JUDGED}
    assert all(set(got) <= names for got in usual.values())
    late = "fillrandom, 960k requests: P99 saved against scheduling-domain"
    assert hasty["linucb"][late] > usual["linucb"][late] > 0
    gap = "local / remote bandwidth of DRAM, largest"
    assert one_link["machine"][gap] > usual["machine"][gap]
    assert one_link["linucb"] != usual["linucb"]
