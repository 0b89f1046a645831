"""What small benchmarks of memory measure on a simulated machine: latencies and bandwidths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine, load_machine

_LINES = 30_000


def first_worker(machine: Machine, node: int = 0) -> int:
    """The first worker core of a node; DescriptionError if it has none."""
    mine = machine.workers[machine.node_of_core[machine.workers] == node]
    if not mine.size:
        raise DescriptionError(f"node {node} of {machine.name} has no worker")
    return int(mine[0])


def latency_ns(machine: str, core_node: int, memory_node: int) -> float:
    """Latency of memory in a pointer chase on the idle machine, ns."""
    described = load_machine(machine)
    native = native_machine(described)
    # No line comes a second time, so no cache has it.
    trace = _native.pointer_chase(1, _LINES, _LINES)
    server = _native.SimulatedServer(native, outstanding_per_worker=1)
    server.set_instance(trace)
    core = first_worker(described, core_node)
    raw = server.run(np.array([core], np.int32), np.array([memory_node], np.int32))
    return 1e3 / float(raw["throughput"]) * native.mlp_dependent


def modified_ns(machine: str, reader: int, owner: int, home: int) -> float:
    """Latency of a line that another core has modified, ns; of any two cores."""
    native = native_machine(load_machine(machine))
    working = list(native.is_worker)
    working[reader] = working[owner] = 1
    native.is_worker = working
    server = _native.SimulatedServer(native, outstanding_per_worker=1)
    server.set_instance(_native.modified_lines(1_000, 20_000))
    raw = server.run(np.array([reader, owner], np.int32), np.array([home, home], np.int32))
    counters = raw["counters"]
    cycles = counters["cycles"][0] / counters["queries"][0]
    return float(cycles) / native.clock_ghz * native.mlp_dependent


def stream_gb_per_s(
    machine: str,
    cores: Sequence[int],
    memory_node: int,
    written_share: float = 0.0,
) -> float:
    """Bandwidth of memory that scans by some cores get together, GB/s."""
    native = native_machine(load_machine(machine))
    lines = int(4 * native.llc_lines / len(cores)) + _LINES
    queries = 2 * lines * len(cores) // 64
    trace = _native.streaming(len(cores), lines, 64, queries, written_share)
    server = _native.SimulatedServer(native, load="saturated")
    server.set_instance(trace)
    raw = server.run(np.array(cores, np.int32), np.full(len(cores), memory_node, dtype=np.int32))
    return float(raw["read_gb_per_s"][memory_node] + raw["write_gb_per_s"][memory_node])


def loaded_latency(machine: str, use: float) -> float:
    """Loaded / idle latency of the first node's memory in a chase, at a share of its bandwidth."""
    described = load_machine(machine)
    native = native_machine(described)
    core = first_worker(described)

    bandwidth = native.dram_gb_per_s[0]

    def chase(background: float) -> tuple[float, float]:
        """Time per load, and the share of the bandwidth that the chase itself takes."""
        server = _native.SimulatedServer(native, outstanding_per_worker=1)
        co_tenants = _native.Interference()
        co_tenants.dram_gb_per_s = [background * bandwidth] + [0.0] * (described.nodes - 1)
        server.set_instance(_native.pointer_chase(1, _LINES, _LINES), co_tenants)
        raw = server.run(np.array([core], np.int32), np.zeros(1, np.int32))
        return 1.0 / float(raw["throughput"]), float(raw["read_gb_per_s"][0]) / bandwidth

    _, own = chase(use)
    loaded, _ = chase(use - own)
    idle = 1e-3 * native.dram_ns[0] / native.mlp_dependent
    return loaded / idle
