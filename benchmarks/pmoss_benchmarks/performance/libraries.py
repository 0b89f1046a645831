"""The example libraries as indexes on this host, under two schedules each, beside a co-tenant."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pmoss_benchmarks.performance.example_libraries import examples
from pmoss_benchmarks.performance.native_programs import build_program
from pmoss_benchmarks.report import Figure
from pmoss_env.backends import make_backend
from pmoss_env.indexes import register_plugin
from pmoss_env.measuring import measure_rounds
from pmoss_env.types import CoTenant, Instance

#: The first serves as many slices on each core, the second asks the counters how fast a core is.
SCHEDULES = ("grouped", "lpt-capacity")
SLICES, _MOST_KEYS, _SECONDS = 32, 200_000, 0.7
#: Takes this part of the first core.
_STRENGTH = 0.5
#: Long beside what routing a query takes, which no slice's counters hold.
_WORKLOAD = "lookups-scans"
#: For a library without an order.
_WITHOUT_SCANS = "lookups"
_HASHES = frozenset({"tbb::concurrent_hash_map"})
#: Each worker's core routes as many queries; a single router would take one worker's core.
_ROUTERS = "workers"
#: Deep queues: a core that the co-tenant has taken for a moment keeps no other one waiting.
_LOAD = "closed:4000"
#: How the figures name the examples.
_TITLES = {
    "absl_btree": "absl::btree_map",
    "lmdb": "LMDB",
    "rocksdb": "RocksDB",
    "std_map": "std::map",
    "tbb_hash": "tbb::concurrent_hash_map",
}


def measure_libraries(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """Lookups and scans on each library; both schedules are measured in turn, in every round.

    Raises:
        BackendError: a package of an example is missing.
    """
    keys = min(keys, _MOST_KEYS)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        libraries = {
            _TITLES[name]: example.build(Path(folder)) for name, example in examples().items()
        }
        own = build_program("pmoss_btree_plugin", "pmoss_btree_plugin.so")
        for title, library in {**libraries, "our B+-tree as a library": own}.items():
            figures += _measure(title, library, rounds, keys)
    return figures


def _measure(title: str, library: Path, rounds: int, keys: int) -> list[Figure]:
    workload = _WITHOUT_SCANS if title in _HASHES else _WORKLOAD
    backend = make_backend(
        "hardware",
        machine="host",
        index=register_plugin(library),
        workload=workload,
        routers=_ROUTERS,
        load=_LOAD,
        slices=SLICES,
        records=keys,
        seconds=_SECONDS,
        warmup_seconds=0.1,
        batch=16,
    )
    try:
        first = int(backend.machine.workers[0])
        backend.set_instance(Instance(co_tenants=(CoTenant("busy_core", first, _STRENGTH),)))
        measured = measure_rounds(backend, SCHEDULES, rounds=rounds, seed=0)
        workers = int(backend.machine.workers.size)
    finally:
        backend.close()
    note = (
        f"{workload}, {keys:,} keys, {SLICES} slices on {workers} cores, of which a co-tenant "
        f"takes {_STRENGTH:.0%} of one, load {_LOAD}, a router on each core"
    )
    of = {name: [snapshots[name].throughput for snapshots in measured] for name in SCHEDULES}
    ratios = [b / a for a, b in zip(of[SCHEDULES[0]], of[SCHEDULES[1]], strict=True)]
    return [
        *(Figure.of(f"{title}, {name}", "Mq/s", of[name], note=note) for name in SCHEDULES),
        Figure.of(f"{title}, {SCHEDULES[1]} / {SCHEDULES[0]}", "x", ratios, note=note),
    ]
