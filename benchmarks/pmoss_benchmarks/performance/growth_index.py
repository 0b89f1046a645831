"""How the cost of an operation grows with the keys of an index, beside absl's B-tree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pmoss_benchmarks.performance.growth import grown
from pmoss_benchmarks.performance.native_programs import BUILD, build_program, run_program
from pmoss_benchmarks.report import Figure

KEYS = (1_000_000, 10_000_000, 30_000_000, 100_000_000)
#: Memory of the process at its most, measured at 10 million keys.
BYTES_PER_KEY = 110


def measure_growth_index(rounds: int = 7, **_: Any) -> list[Figure]:
    """CPU time of each mix at every size that half of the memory holds.

    Needs a source checkout, a compiler and, for the peer, Debian's libabsl-dev.
    """
    program = build_program("index_bench")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    sizes = [keys for keys in KEYS if keys * BYTES_PER_KEY <= memory // 2]
    # One size says nothing about growth; the second one takes a gigabyte.
    found = {keys: _rates(program, keys, rounds) for keys in (sizes if sizes[1:] else KEYS[:2])}
    figures = []
    for mix, way in found[min(found)]:
        costs = {keys: [1e6 / rate for rate in rates[mix, way]] for keys, rates in found.items()}
        figures += grown(f"{mix}, {way}", "keys", costs)
    return figures


def _rates(program: Path, keys: int, rounds: int) -> dict[tuple[str, str], list[float]]:
    """Operations per second in each round, by mix and way of execution."""
    result = BUILD / "growth_index.json"
    result.unlink(missing_ok=True)
    run_program(program, "--keys", keys, "--rounds", rounds, "--json", result)
    mixes = json.loads(result.read_text())["mixes"]
    return {
        (mix, way): rates
        for mix, measured in mixes.items()
        for way, rates in measured["rates"].items()
    }
