"""Traces and the simulated server as Python sees them; native/tests/simulator has the proofs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from pmoss_env._native import (
    Interference,
    MachineModel,
    SimulatedServer,
    Trace,
    WorkloadSpec,
    pointer_chase,
)
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.machines import load_machine, machine_names

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
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: made.run(cores, NODES[cores], seed=3), range(4)))
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
    with pytest.raises(ValueError, match=message):
        server().run(**{"cores": zeros + WORKERS[0], "nodes": zeros, **change})
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
    assert 5.0 < trace.mean_dependent < 6.0 and trace.mean_streaming > 6.0
    every = record(workload(), 16, queries=5_000, line_sampling=1, page_sampling=1, seed=3)
    assert every.mean_dependent == trace.mean_dependent
    assert every.touches == pytest.approx(5_000 * (every.mean_dependent + every.mean_streaming))
    assert trace.touches == pytest.approx(every.touches / 4, rel=0.3)
    assert 0 < trace.lines < every.lines and 0 < trace.pages < every.pages
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


if TYPE_CHECKING:
    from pmoss_env._native import ModelSnapshot

PRESETS = [name for name in machine_names() if name != "host"]


def run(machine: MachineModel, trace: Trace, cores: list[int], nodes: list[int]) -> ModelSnapshot:
    server = SimulatedServer(machine, outstanding_per_worker=1)
    server.set_instance(trace, Interference())
    return server.run(np.array(cores, np.int32), np.array(nodes, np.int32))


def chase_ns(machine: MachineModel, lines: float, queries: float, core: int, node: int) -> float:
    """Latency that a chase on an idle machine finds."""
    trace = pointer_chase(1, int(lines), int(queries))
    return 1e3 / run(machine, trace, [core], [node])["throughput"] * machine.mlp_dependent


def workers(machine: MachineModel) -> list[int]:
    return [int(core) for core in np.flatnonzero(np.asarray(machine.is_worker))]


def mesh_ns(machine: MachineModel, core: int) -> float:
    """What a core's place on a mesh adds to the last level and to memory."""
    return machine.mesh_ns[core] if machine.mesh_ns else 0.0


def dram_ns(machine: MachineModel) -> npt.NDArray[np.float64]:
    nodes = len(machine.socket_of_node)
    return np.asarray(machine.dram_ns).reshape(nodes, nodes)


@pytest.mark.parametrize("preset", PRESETS)
def test_caches_take_their_latency(preset: str) -> None:
    machine = native_machine(load_machine(preset))
    core = workers(machine)[0]
    node = machine.node_of_core[core]
    l2 = machine.l2_lines
    assert chase_ns(machine, l2 / 4, 2 * l2, core, node) == pytest.approx(machine.l2_ns, rel=0.01)
    ns = chase_ns(machine, 4 * l2, 12 * l2, core, node)
    assert ns == pytest.approx(machine.llc_ns + mesh_ns(machine, core), rel=0.01)


@pytest.mark.parametrize("preset", PRESETS)
def test_memory_takes_its_latency_at_every_distance(preset: str) -> None:
    machine = native_machine(load_machine(preset))
    latencies = dram_ns(machine)
    nodes = range(len(latencies))
    worker_of = {machine.node_of_core[core]: core for core in workers(machine)}
    # Each latency once, and everything as the last node sees it.
    pairs = {latencies[reader, owner]: (reader, owner) for reader in worker_of for owner in nodes}
    last = max(worker_of)
    for reader, owner in {*pairs.values(), *((last, owner) for owner in nodes)}:
        # No line comes a second time.
        core = worker_of[reader]
        ns = chase_ns(machine, 10_000, 10_000, core, owner)
        expected = latencies[reader, owner] + mesh_ns(machine, core)
        assert ns == pytest.approx(expected, rel=0.02), (reader, owner)
