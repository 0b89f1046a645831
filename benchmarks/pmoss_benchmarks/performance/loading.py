"""Loading keys in random order, and the first time that their slices are placed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from pmoss_benchmarks.report import Figure
from pmoss_env import _native
from pmoss_env.indexes import DEFAULT

SLICES = 256
_SEED = 1
#: Keys that are drawn at a time for inserts one by one.
_DRAWN = 1 << 20
#: What is wanted: how many times as fast as single inserts, and most time of placing a leaf, us.
_RATIO, _LEAF_US = 4.0, 0.7


def measure_loading(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """One loading thread beside inserts one at a time, in CPU time, drawing the keys included.

    After each load all slices are copied to the first node. The index has not been placed before.
    So its target is memory that the process did not have, or that another slice has just left.
    """
    singly, loaded, first = [], [], []
    for _round in range(rounds):
        singly.append(_insert_singly(keys))
        spec = _native.WorkloadSpec(lookup=1.0, records=keys, seed=_SEED, distribution="uniform")
        runner = _native.Runner(spec, DEFAULT, slices=SLICES, load_threads=1)
        began = time.process_time()
        runner.load()
        loaded.append(time.process_time() - began)
        first.append(_first_placement(runner))
        del runner
    note = f"{keys:,} keys in random order, {SLICES} slices, one thread, CPU time"
    rates = {
        "loading, keys sorted and nodes filled": loaded,
        "loading, one insert at a time": singly,
    }
    figures = [
        Figure.of(name, "M/s", [keys / seconds / 1e6 for seconds in values], note=note)
        for name, values in rates.items()
    ]
    ratio = Figure.of(
        "loading / one insert at a time",
        "x",
        [single / load for single, load in zip(singly, loaded, strict=True)],
        note=note,
    )
    leaf = Figure.of("first placement by copy, per leaf", "us", first, note=note)
    return [
        *figures,
        ratio.with_goal(f">= {_RATIO:g} x", ratio.median >= _RATIO),
        leaf.with_goal(f"<= {_LEAF_US:g} us", leaf.median <= _LEAF_US),
    ]


def _insert_singly(keys: int) -> float:
    """Seconds of CPU time in which an empty tree takes all keys."""
    tree = _native.BTree(slices=SLICES)
    began = time.process_time()
    for first in range(0, keys, _DRAWN):
        drawn = _native.key_of_record(np.arange(first, min(first + _DRAWN, keys)), _SEED)
        tree.insert(drawn, drawn)
    return time.process_time() - began


def _first_placement(runner: _native.Runner) -> float:
    """Microseconds of CPU time per leaf."""
    topology = _native.host_topology()
    cpu, node = topology["allowed_cpus"][0], topology["nodes"][0]["id"]
    moved = runner.measure(
        np.full(SLICES, cpu),
        worker_cpus=[cpu],
        router_cpus=[cpu],
        outstanding_per_worker=1,
        seconds=0.1,
        window=0,
        nodes=[node] * SLICES,
        data="slice",
        strategy="copy",
        pace="aggressive",
    )["migration"]
    return float(1e6 * moved["processor_seconds"] / moved["leaves"])
