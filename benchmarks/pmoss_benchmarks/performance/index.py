"""The B+-tree beside absl::btree_map: builds and runs native/bench."""

from __future__ import annotations

import json
from typing import Any

from pmoss_benchmarks.performance.native_programs import BUILD, build_program, run_program
from pmoss_benchmarks.report import Figure

#: By mix and way of execution, how many times as fast as absl::btree_map, on every host.
GOALS = {
    ("lookups", "own, one at a time"): 3.0,
    ("lookups", "own, batches of 64"): 16.0,
    ("dependent lookups", "own, one at a time"): 2.0,
    ("updates", "own, batches of 64"): 7.0,
    ("inserts", "own, batches of 64"): 4.5,
    ("scans", "own, batches of 64"): 6.0,
}

#: Of the reads that memory allows, in percent.
SHARE_GOAL = 75.0


def measure_index(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """One thread, payload consumed: lookups, dependent lookups, updates, inserts and scans.

    Needs a source checkout, a compiler and, for the peer, Debian's libabsl-dev.
    """
    program = build_program("index_bench")
    result = BUILD / "index_bench.json"
    result.unlink(missing_ok=True)
    run_program(program, "--keys", keys, "--rounds", rounds, "--json", result)
    return _figures(json.loads(result.read_text()))


def _figures(data: dict[str, Any]) -> list[Figure]:
    note = (
        f"{data['keys']:,} keys, {data['pages']} pages, {data['search']} search, "
        f"{data['lines_per_lookup']:.2f} lines per lookup, CPU time"
    )

    def figure(name: str, unit: str, values: list[float], scale: float = 1.0) -> Figure:
        return Figure.of(name, unit, [value * scale for value in values], note=note)

    figures = []
    for mix, measured in data["mixes"].items():
        for name, rate in measured["rates"].items():
            figures.append(figure(f"{mix}, {name}", "M/s", rate, 1e-6))
        for name, ratio in measured["ratio_to_absl"].items():
            found = figure(f"{mix}, {name} / absl::btree_map", "x", ratio)
            if (goal := GOALS.get((mix, name))) is not None:
                found = found.with_goal(f">= {goal:g} x", found.median >= goal)
            figures.append(found)
    share = figure(
        "lookups, batches of 64, share of what random reads allow",
        "%",
        data["share_of_random_reads"],
    )
    return [
        *figures,
        figure("independent random reads, one core", "M/s", data["random_reads"], 1e-6),
        share.with_goal(f">= {SHARE_GOAL:g} %", share.median >= SHARE_GOAL),
    ]
