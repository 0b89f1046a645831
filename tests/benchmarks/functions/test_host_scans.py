"""Both paths of a scan on this host."""

from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from pmoss_benchmarks.functions.host_scans import (
    Settings,
    cells,
    measure,
)
from pmoss_benchmarks.study.function import Run
from pmoss_env.errors import DescriptionError, UnknownNameError


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
