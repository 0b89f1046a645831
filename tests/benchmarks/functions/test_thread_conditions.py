from pathlib import Path

from pmoss_benchmarks.functions.thread_conditions import Settings, measure
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import Results

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
