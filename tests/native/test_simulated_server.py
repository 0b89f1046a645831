"""Traces and the simulated server as Python sees them; native/tests/simulator has the proofs."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pmoss_env._native import SimulatedServer, WorkloadSpec
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.machines import load_machine

SLICES = 16
TRACE = index_kind(DEFAULT).record(
    WorkloadSpec(records=50_000), SLICES, queries=20_000, line_sampling=1
)
TOY = load_machine("toy")
WORKERS = np.flatnonzero(np.asarray(native_machine(TOY).is_worker)).astype(np.int32)
NODES = np.asarray(native_machine(TOY).node_of_core, dtype=np.int32)


def server(**options: Any) -> SimulatedServer:
    made = SimulatedServer(native_machine(TOY), **options)
    made.set_instance(TRACE)
    return made


def test_a_run_gives_the_same_snapshot_from_every_thread() -> None:
    made = server()
    cores = WORKERS[np.arange(SLICES) % WORKERS.size]
    nodes = NODES[cores]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: made.run(cores, nodes, seed=3), range(4)))
    first = runs[0]
    assert first["throughput"] > 0
    assert first["counters"]["queries"].sum() == pytest.approx(first["throughput"])
    for other in runs[1:]:
        assert other["throughput"] == first["throughput"]
        np.testing.assert_array_equal(other["counters"]["cycles"], first["counters"]["cycles"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"routing": "near"}, "routing is 'near'"),
        ({"data": "near"}, "data is 'near'"),
        ({"nodes": np.zeros(3, dtype=np.int32)}, "length of nodes = 3"),
        ({"cores": np.full(SLICES, 999, dtype=np.int32)}, "core of a slice = 999"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    zeros = np.zeros(SLICES, dtype=np.int32)
    arguments = {"cores": zeros + WORKERS[0], "nodes": zeros, **change}
    with pytest.raises(ValueError, match=message):
        server().run(**arguments)
    with pytest.raises(ValueError, match="dispatch 'fast'"):
        server(dispatch="fast")


record = index_kind("btree").record


def workload(seed: int = 0) -> WorkloadSpec:
    return WorkloadSpec(lookup=0.5, insert=0.5, distribution="zipf", records=100_000, seed=seed)


def test_a_trace_says_what_it_holds() -> None:
    trace = record(workload(), 16, queries=5_000, line_sampling=4, page_sampling=2, seed=3)
    assert (trace.size, trace.slices) == (5_000, 16)
    assert (trace.line_sampling, trace.page_sampling) == (4, 2)
    # One level of inner nodes: 5 lines waited for, and the lock of half of the queries.
    assert 5.0 < trace.mean_dependent < 6.0
    assert trace.mean_streaming > 6.0
    every = record(workload(), 16, queries=5_000, line_sampling=1, page_sampling=1, seed=3)
    assert every.mean_dependent == trace.mean_dependent
    assert every.touches == pytest.approx(5_000 * (every.mean_dependent + every.mean_streaming))
    assert trace.touches == pytest.approx(every.touches / 4, rel=0.3)
    assert 0 < trace.lines < every.lines
    assert 0 < trace.pages < every.pages
    # 100,000 records fill leaves of 4,288 bytes with 255 * ln 2 each, with inserts to come.
    expected = 102_500 / (255 * np.log(2)) * 4_288
    assert trace.bytes_of_slice.sum() == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slices": 0}, "slices is 0"),
        ({"slices": 65_537}, "slices is 65537"),
        ({"queries": 0}, "queries is 0"),
        ({"line_sampling": 0}, "line_sampling is 0"),
        ({"page_sampling": 0}, "page_sampling is 0"),
        ({"queries": 10**15}, "GiB"),
    ],
)
def test_impossible_arguments_are_refused(changes: dict[str, int], message: str) -> None:
    arguments = {"slices": 16, "queries": 10, **changes}
    slices = arguments.pop("slices")
    with pytest.raises(ValueError, match=message):
        record(WorkloadSpec(records=1_000), slices, **arguments)
