"""How much of one core's read bandwidth a real scan gets (native/bench/scan_bench.cpp)."""

from __future__ import annotations

from typing import Any

from pmoss_benchmarks.performance.native_programs import build_program, run_program
from pmoss_benchmarks.report import Figure

_MEGABYTES = 512
_GOAL = 0.8

#: What the program's contestants are, by name.
CONTESTANTS = {
    "read": "reading memory, one core, widest vectors",
    "memcpy": "memcpy, one core, bytes copied",
    "plain-count": "counting matches, the compiler's own loop",
    "plain-scan": "writing positions, a plain loop",
    "scan": "our scan, one match in a million",
    "scan-1%": "our scan, 1 % of the rows match",
    "scan-thread-engine": "our scan through a helper thread's copies",
}


def measure_scan(*, rounds: int = 7, **_: Any) -> list[Figure]:
    """GB/s of a scan beside what the memory gives, in interleaved rounds.

    The share is that of the best rounds: what else runs on the machine only takes away.
    """
    output = run_program(build_program("scan_bench"), _MEGABYTES, rounds)
    best, median = {}, {}
    for line in output.splitlines():
        name, high, middle = line.split()
        best[name], median[name] = float(high), float(middle)
    figures = [
        Figure(told, "GB/s", median[name], median[name], best[name], rounds, note="median and best")
        for name, told in CONTESTANTS.items()
    ]
    share = best["scan"] / best["read"]
    figures.append(
        Figure.of("our scan / reading memory, one core", "share", [share]).with_goal(
            f">= {_GOAL}", share >= _GOAL
        )
    )
    return figures
