"""Point lookups of the B+-tree beside absl::btree_map: builds and runs native/bench."""

from __future__ import annotations

import json
from typing import Any

from pmoss_benchmarks.performance.native_programs import BUILD, build_program, run_program
from pmoss_benchmarks.report import Figure

LOOKUP_GOAL = 3.0


def measure_index(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """One thread, one query at a time, uniform existing keys, payload consumed.

    Needs a source checkout, a compiler and, for the peer, Debian's libabsl-dev.
    """
    program = build_program("index_bench")
    result = BUILD / "index_bench.json"
    result.unlink(missing_ok=True)
    run_program(program, "--keys", keys, "--rounds", rounds, "--json", result)
    return _figures(json.loads(result.read_text()))


def _figures(data: dict[str, Any]) -> list[Figure]:
    note = f"{data['keys']:,} keys, {data['pages']} pages, {data['search']} search, CPU time"
    figures = [
        _figure(f"lookups, {name}", "M/s", measured["rate"], data, note, scale=1e-6)
        for name, measured in data["lookups_per_cpu_second"].items()
    ]
    for name, ratio in data["ratio_to_absl"].items():
        figure = _figure(f"lookups, {name} / absl::btree_map", "x", ratio, data, note)
        if "one at a time" in name:
            figure = figure.with_goal(f">= {LOOKUP_GOAL:g} x", figure.median >= LOOKUP_GOAL)
        figures.append(figure)
    return figures


def _figure(
    name: str,
    unit: str,
    spread: dict[str, float],
    data: dict[str, Any],
    note: str,
    scale: float = 1.0,
) -> Figure:
    median, low, high = (spread[key] * scale for key in ("median", "min", "max"))
    return Figure(name, unit, median, low, high, data["rounds"], note=note)
