"""What sampling lines costs: simulated throughput at samplings of 16 and 64 against all lines."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from pmoss_benchmarks.performance.simulator import LOADS, MACHINE, ROUTINGS, SLICES
from pmoss_benchmarks.report import Figure
from pmoss_env import _native
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.machines import load_machine

QUERIES = 2_000_000
SAMPLINGS = (16, 64)
WORKLOADS: dict[str, dict[str, Any]] = {
    "Zipf, half inserts": {"lookup": 0.5, "insert": 0.5, "distribution": "zipf"},
    "uniform lookups": {"lookup": 1.0, "insert": 0.0, "distribution": "uniform"},
    "scans": {"lookup": 0.0, "insert": 0.05, "scan": 0.95, "distribution": "zipf"},
}


def measure_sampling(keys: int = 30_000_000, queries: int = QUERIES, **_: Any) -> list[Figure]:
    """Errors of throughput over a few schedules (slices grouped, spread and random), in percent."""
    machine = native_machine(load_machine(MACHINE))
    workers = np.flatnonzero(np.asarray(machine.is_worker)).astype(np.int32)
    slices = np.arange(SLICES)
    schedules = [
        workers[slices * workers.size // SLICES],
        workers[slices % workers.size],
        np.random.default_rng(0).choice(workers, SLICES),
    ]
    node_of_core = np.asarray(machine.node_of_core, np.int32)
    figures = []
    for name, mix in WORKLOADS.items():
        workload = _native.WorkloadSpec(records=keys, **mix)
        found: dict[tuple[str, str, int], list[float]] = {}
        for sampling in (1, *SAMPLINGS):
            trace = index_kind(DEFAULT).record(
                workload, SLICES, queries=queries, line_sampling=sampling, page_sampling=1
            )
            for load, routing in product(LOADS, ROUTINGS):
                server = _native.SimulatedServer(machine, load=load)
                server.set_instance(trace)
                found[load, routing, sampling] = [
                    server.run(cores, node_of_core[cores], routing)["throughput"]
                    for cores in schedules
                ]
        for load, routing, sampling in product(LOADS, ROUTINGS, SAMPLINGS):
            exact = np.asarray(found[load, routing, 1])
            errors = 100.0 * (np.asarray(found[load, routing, sampling]) / exact - 1.0)
            figures.append(
                Figure.of(
                    f"error of sampling {sampling}: {name}, {load}, {routing}",
                    "%",
                    errors.tolist(),
                    note=f"throughput, {MACHINE}, {keys:,} keys, {queries:,} queries; over "
                    f"{len(schedules)} schedules",
                )
            )
    return figures
