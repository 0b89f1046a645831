"""What the way of users' libraries costs: our B+-tree as one, beside the built-in one."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmoss_benchmarks.performance.native_programs import build_program
from pmoss_benchmarks.report import Figure
from pmoss_env import _native
from pmoss_env.errors import BackendError
from pmoss_env.indexes import DEFAULT, register_plugin

SLICES = 256
_MOST_KEYS = 3_000_000
#: Of one run, and runs of each tree in a round: on a busy host, neighbours in time are alike.
_SECONDS, _RUNS = 0.25, 4
#: What is wanted: least throughput as a library, percent of the built-in tree's.
_LEAST = 95.0
#: A figure's name, the shares of lookups and updates, and queries per batch.
_CASES = (
    ("lookups, batches of 64", 1.0, 0.0, 64),
    ("lookups, one by one", 1.0, 0.0, 1),
    ("half lookups, half updates, batches of 64", 0.5, 0.5, 64),
)


def measure_plugin(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """Both trees are loaded and then served in turn; who came first comes last the next time.

    A worker is on the first CPU and a router on the last one. A figure is a ratio of one round.
    """
    keys = min(keys, _MOST_KEYS)
    library = register_plugin(build_program("pmoss_btree_plugin", "pmoss_btree_plugin.so"))
    cpus = _native.host_topology()["allowed_cpus"]
    note = (
        f"{keys:,} keys, {SLICES} slices, worker on CPU {cpus[0]}, router on CPU {cpus[-1]}, wall "
        "time, alternating"
    )
    figures = []
    for name, lookup, update, batch in _CASES:
        spec = _native.WorkloadSpec(
            lookup=lookup, update=update, records=keys, seed=1, distribution="uniform"
        )
        runners = {kind: _native.Runner(spec, kind, slices=SLICES) for kind in (DEFAULT, library)}
        for runner in runners.values():
            runner.load()
        shares = []
        for turn in range(rounds):
            served = dict.fromkeys(runners, 0.0)
            for run in range(_RUNS):
                for kind in sorted(runners, reverse=run % 2 == 1):
                    served[kind] += _rate(runners[kind], cpus, batch, turn * _RUNS + run)
            shares.append(100 * served[library] / served[DEFAULT])
        figure = Figure.of(f"B+-tree as a library / built in: {name}", "%", shares, note=note)
        figures.append(figure.with_goal(f">= {_LEAST:g} %", figure.median >= _LEAST))
    return figures


def _rate(runner: _native.Runner, cpus: list[int], batch: int, seed: int) -> float:
    """Queries per second."""
    told = runner.measure(
        np.full(SLICES, cpus[0]),
        worker_cpus=[cpus[0]],
        router_cpus=[cpus[-1]],
        outstanding_per_worker=1024,
        seconds=_SECONDS,
        batch=batch,
        seed=seed,
    )
    if told["not_found"]:
        raise BackendError(f"{told['not_found']} queries missed their key")
    return float(told["completed"] / told["seconds"])
