"""The R-tree beside Boost.Geometry's (packed, then R* inserts): builds and runs native/bench."""

from __future__ import annotations

import json
from typing import Any

from pmoss_benchmarks.performance.native_programs import BUILD, build_program, run_program
from pmoss_benchmarks.report import Figure

POINTS, QUERIES = 10_000_000, 100_000
#: How many times as fast as Boost.Geometry.
GOALS = {
    "ranges, own / Boost": 4.0,
    "ranges, own in batches / Boost": 4.0,
    "ranges after inserts, own / Boost": 3.5,
    "ranges after inserts, own in batches / Boost": 3.5,
    "inserts, own / Boost": 15.0,
}


def measure_rtree(rounds: int = 7, keys: int = POINTS, **_: Any) -> list[Figure]:
    """One thread; squares with 100 points each, 0.001 % of ten million, alone or in batches.

    Needs a source checkout, a compiler and Debian's libboost-dev.
    """
    points = min(keys, POINTS)
    program = build_program("rtree_bench")
    result = BUILD / "rtree_bench.json"
    result.unlink(missing_ok=True)
    run_program(program, points, rounds, QUERIES, result)
    note = f"{points:,} points, squares with 100, fanout 50, CPU time"
    figures = []
    for name, spread in json.loads(result.read_text()).items():
        is_ratio = "/" in name
        median, low, high = (
            spread[key] * (1 if is_ratio else 1e-3) for key in ("median", "min", "max")
        )
        unit = "x" if is_ratio else "k/s"
        figure = Figure(f"R-tree, {name}", unit, median, low, high, rounds, note=note)
        if (goal := GOALS.get(name)) is not None:
            figure = figure.with_goal(f">= {goal:g} x", median >= goal)
        figures.append(figure)
    return figures
