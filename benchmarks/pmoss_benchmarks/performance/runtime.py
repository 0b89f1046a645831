"""The runtime on this host: what routing, profiling, sweeping and migrating cost, as ratios."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from pmoss_benchmarks.report import Figure
from pmoss_env import _native
from pmoss_env.indexes import DEFAULT

SLICES = 256
_SECONDS = 1.0
#: (queries per batch, queries per counter window): the paper's, and the batched default.
_PROFILES = ((1, 100), (64, 1024))
#: What is wanted: least share of the unrouted lookups and most cost of counting, percent; most CPU
#: time of moving a leaf, us, and a slice, ms.
_ROUTED, _PROFILING, _LEAF_US, _SLICE_MS = 40.0, 3.0, 0.35, 0.4


def measure_runtime(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """One router and one worker, uniform lookups of existing keys; then migrations of all slices.

    On a host with one CPU the two share it, and the note says so.
    """
    spec = _native.WorkloadSpec(lookup=1.0, records=keys, seed=1, distribution="uniform")
    runner = _native.Runner(spec, DEFAULT, slices=SLICES)
    runner.load()
    cpus = _native.host_topology()["allowed_cpus"]
    worker, router = cpus[0], cpus[-1]
    place = f"worker on CPU {worker}, router on CPU {router}"
    note = f"{keys:,} keys, {place}, wall time"

    def run(**options: Any) -> dict[str, Any]:
        return runner.measure(
            np.full(SLICES, worker),
            worker_cpus=[worker],
            router_cpus=[router],
            outstanding_per_worker=1024,
            seconds=_SECONDS,
            **options,
        )

    figures = []
    shares = []
    costs: dict[tuple[int, int], list[float]] = {profile: [] for profile in _PROFILES}
    sweeping: dict[tuple[int, int], list[float]] = {profile: [] for profile in _PROFILES}
    rng = np.random.default_rng(0)
    for _round in range(rounds):
        drawn = _native.key_of_record(rng.integers(0, keys, 1 << 20), 1)
        began = time.perf_counter()
        runner.index.lookup(drawn)
        own = drawn.size / (time.perf_counter() - began)
        for batch, window in _PROFILES:
            off = _rate(run(batch=batch, window=0, sweep_seconds=0.0, seed=_round))
            on = _rate(run(batch=batch, window=window, sweep_seconds=0.0, seed=_round))
            swept = _rate(run(batch=batch, window=window, seed=_round))
            costs[batch, window].append(100 * (1 - on / off))
            sweeping[batch, window].append(100 * (1 - swept / on))
        shares.append(100 * off / own)
    routed = Figure.of(
        "routed, batches of 64 / the index's own batched lookups", "%", shares, note=note
    )
    figures.append(routed.with_goal(f">= {_ROUTED:g} %", routed.median >= _ROUTED))
    figures += [
        _at_most(
            Figure.of(f"cost of profiling, batch {batch}, window {window}", "%", values, note=note),
            _PROFILING,
        )
        for (batch, window), values in costs.items()
    ]
    figures += [
        Figure.of(f"cost of sweeping it, batch {batch}, window {window}", "%", values, note=note)
        for (batch, window), values in sweeping.items()
    ]
    return figures + _migrations(runner, worker, rounds, keys)


def _at_most(figure: Figure, most: float) -> Figure:
    return figure.with_goal(f"<= {most:g} {figure.unit}", figure.median <= most)


def _rate(result: dict[str, Any]) -> float:
    return float(result["completed"] / result["seconds"])


def _migrations(runner: _native.Runner, cpu: int, rounds: int, keys: int) -> list[Figure]:
    """All slices to the first node again and again, under a light load, by both strategies.

    The CPU time of the thread that moves them counts: programs of others take its core, too.
    """
    node = _native.host_topology()["nodes"][0]["id"]
    place = f"{keys:,} keys, worker and router on CPU {cpu}"
    figures = []
    for strategy in ("copy", "move_pages"):
        per_leaf, per_slice = [], []
        # The first time memory is new; from then on chunks that were left behind are used again.
        for number in range(rounds + 1):
            moved = runner.measure(
                np.full(SLICES, cpu),
                worker_cpus=[cpu],
                router_cpus=[cpu],
                outstanding_per_worker=1,
                seconds=0.1,
                seed=number,
                window=0,
                nodes=[node] * SLICES,
                data="slice",
                strategy=strategy,
                pace="aggressive",
                always_move=True,
            )["migration"]
            if number > 0:
                per_slice.append(1e3 * moved["processor_seconds"] / max(moved["slices"], 1))
                if moved["leaves"]:
                    per_leaf.append(1e6 * moved["processor_seconds"] / moved["leaves"])
        told = f"{place}; memory that is there already"
        if per_leaf:
            name = f"migration by {strategy} in CPU time, per leaf"
            of_leaf = Figure.of(name, "us", per_leaf, note=told)
            figures.append(_at_most(of_leaf, _LEAF_US))
        if strategy == "move_pages":
            told = f"{place}; to the node where the pages are: the cost of asking"
        name = f"migration by {strategy} in CPU time, per slice"
        of_slice = Figure.of(name, "ms", per_slice, note=told)
        figures.append(_at_most(of_slice, _SLICE_MS) if strategy == "copy" else of_slice)
    return figures
