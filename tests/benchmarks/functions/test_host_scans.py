"""Both paths of a scan on this host."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")

from pmoss_benchmarks.functions.host_scans import (
    TABLES,
    Settings,
    cells,
    engine_wins,
    measure,
    summarise,
)
from pmoss_benchmarks.study import Run
from pmoss_env.errors import DescriptionError, UnknownNameError


def _combination(median: float, best: float) -> dict[str, Any]:
    """Loads take 10 us, at best 9."""
    return {
        **{"node": 0, "megabytes": 1.0, "share": 0.1, "background": 0},
        **{"us_by_loads": 10.0, "us_by_engine": median},
        **{"best_us_by_loads": 9.0, "best_us_by_engine": best},
    }


def test_winning_asks_for_the_median_and_the_best_repeat() -> None:
    combinations = [_combination(8.0, 8.0), _combination(8.0, 9.5), _combination(12.0, 8.0)]
    assert [engine_wins(scan) for scan in combinations] == [True, False, False]
    row = {"engine": "thread", "absent": "", "combinations": combinations, "scores": []}
    summary = summarise({}, [row])["thread"]
    assert (summary["wins"], summary["by_median"], summary["combinations"]) == (1, 1, 3)
    assert summary["gain"] == pytest.approx(0.25)
    assert [line[-1] for line in TABLES["largest"]([row]).rows] == ["copies", "loads", "loads"]
    (verdict,) = TABLES["default"]([row]).rows
    assert verdict == ["thread", "3 combinations", "1", "1", "25%"]


def test_this_host_is_measured(tmp_path: Path) -> None:
    settings = Settings(megabytes=(0.1, 0.4), shares=(0.0, 0.1), backgrounds=(0, 1), repeats=3)
    run = Run(settings, tmp_path, tmp_path, tmp_path)
    thread, dsa = ({**cell, **measure(run, cell)} for cell in cells(settings))
    assert len(thread["combinations"]) % 8 == 0 and not thread["absent"]
    for scan in thread["combinations"]:
        assert 0 < scan["best_us_by_loads"] <= scan["us_by_loads"]
        assert 0 < scan["best_us_by_engine"] <= scan["us_by_engine"]
    assert thread["scores"]
    assert bool(dsa["absent"]) == (not dsa["combinations"])


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(DescriptionError, match="repeats = 1: must be at least 3"):
        Settings(repeats=1)
    with pytest.raises(UnknownNameError, match="magic"):
        Settings(engines=("magic",))
