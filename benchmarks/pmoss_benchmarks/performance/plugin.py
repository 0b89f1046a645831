"""What the way of users' libraries costs: our B+-tree as one, beside the built-in one."""

from __future__ import annotations

from typing import Any

from pmoss_benchmarks.performance.native_programs import build_program, run_program
from pmoss_benchmarks.report import Figure

_MOST_KEYS = 1_000_000
#: What is wanted: least throughput as a library, percent of the built-in tree's.
_LEAST = 95.0
#: How the program names its mixes, and how a figure does.
_CASES = {
    "lookups,64": "lookups, batches of 64",
    "lookups,1": "lookups, one by one",
    "half-updates,64": "half lookups, half updates, batches of 64",
    "short-scans,64": "half lookups, half short scans, batches of 64",
}


def measure_plugin(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """A worker's executor serves the same queries from both trees in turn.

    Rates are per CPU second of the thread. Each round builds both trees anew, for on which pages a
    tree lies changes its rate; its value is the median of 21 pairs of turns.
    """
    keys = min(keys, _MOST_KEYS)
    library = build_program("pmoss_btree_plugin", "pmoss_btree_plugin.so")
    printed = run_program(build_program("plugin_bench"), library, keys, rounds)
    figures = []
    for line in printed.splitlines():
        mix, *ratios = line.split()
        name = f"B+-tree as a library / built in: {_CASES[mix]}"
        figure = Figure.of(name, "%", [100 * float(r) for r in ratios], note=f"{keys:,} keys")
        figures.append(figure.with_goal(f">= {_LEAST:g} %", figure.median >= _LEAST))
    return figures
