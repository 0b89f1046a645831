"""Point lookups of the B+-tree beside absl::btree_map: builds and runs native/bench."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from pmoss_benchmarks.report import Figure
from pmoss_env.errors import BackendError

LOOKUP_GOAL = 3.0
REPOSITORY = Path(__file__).resolve().parents[3]


def measure_index(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """One thread, one query at a time, uniform existing keys, payload consumed.

    Needs a source checkout, a compiler and, for the peer, Debian's libabsl-dev.
    """
    build = REPOSITORY / "build" / "bench"
    result = build / "index_bench.json"
    if not (REPOSITORY / "native" / "bench").is_dir():
        raise BackendError(f"{REPOSITORY} holds no native/bench: run this in a source checkout")
    _run(
        *(_tool("cmake"), "-S", REPOSITORY / "native", "-B", build, "-DCMAKE_BUILD_TYPE=Release"),
        *("-DPMOSS_BUILD_MODULE=OFF", "-DPMOSS_BUILD_BENCH=ON"),
    )
    _run(_tool("cmake"), "--build", build, "--target", "index_bench", "-j", "2")
    result.unlink(missing_ok=True)
    program = next(build.rglob("index_bench"))
    _run(program, "--keys", keys, "--rounds", rounds, "--json", result)
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


def _tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise BackendError(f"{name} is not installed: pip install 'pmoss-env[dev]'")
    return found


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise BackendError(f"{' '.join(words)} failed with status {done.returncode}:\n{tail}")
