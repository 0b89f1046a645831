"""What counting costs a worker, in its CPU time: builds and runs a program of native/bench."""

from __future__ import annotations

import json
from typing import Any

from pmoss_benchmarks.performance.native_programs import build_program, run_program
from pmoss_benchmarks.report import Figure

#: By window: the most of a query's CPU time, in percent.
GOALS = {100: 3.0, 1024: 1.0}


def measure_counting(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """One worker with a full queue of uniform lookups, with windows of counters and without.

    Needs a source checkout and a compiler. Unlike the part ``runtime`` it has no router, and time
    that other programs take is not in it.
    """
    program = build_program("counting_bench")
    told = json.loads(run_program(program, "--keys", keys, "--rounds", rounds))
    return [_figure(one, keys) for one in told]


def _figure(one: dict[str, Any], keys: int) -> Figure:
    note = (
        f"{keys:,} keys, {one['ns_per_query']:.1f} ns per query without windows, "
        f"{one['queries_per_window']:,.0f} queries per window; a round is the median of pairs of "
        "runs in turn"
    )
    name = f"cost of counting in CPU time, batch {one['batch']}, window {one['window']}"
    found = Figure.of(name, "%", one["cost_percent"], note=note)
    goal = GOALS[one["window"]]
    return found.with_goal(f"<= {goal:g} %", found.median <= goal)
