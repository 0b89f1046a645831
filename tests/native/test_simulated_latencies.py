"""Every level and every distance of every preset takes its configured time in the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from pmoss_env._native import (
    Interference,
    MachineModel,
    SimulatedServer,
    Trace,
    modified_lines,
    pointer_chase,
)
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.machines import load_machine, machine_names

if TYPE_CHECKING:
    from pmoss_env._native import ModelSnapshot

PRESETS = [name for name in machine_names() if name != "host"]


def run(
    machine: MachineModel,
    trace: Trace,
    cores: list[int],
    nodes: list[int],
    co_tenants: Interference | None = None,
) -> ModelSnapshot:
    server = SimulatedServer(machine, outstanding_per_worker=1)
    server.set_instance(trace, co_tenants or Interference())
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


def mesh_modified_ns(machine: MachineModel, reader: int, owner: int) -> float:
    cores = len(machine.node_of_core)
    return machine.mesh_modified_ns[reader * cores + owner] if machine.mesh_ns else 0.0


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


def pairs_of_cores(machine: MachineModel) -> Iterator[tuple[int, int, int]]:
    """Workers that share a domain or do not, and a node for whose lines that is so."""
    sockets, physical = machine.socket_of_node, machine.physical_of_core
    mates: dict[int, list[int]] = {}
    for core in workers(machine):
        cores = mates.setdefault(machine.llc_of_core[core], [])
        if physical[core] not in [physical[other] for other in cores]:
            cores.append(core)
    first, other = next(cores for cores in mates.values() if len(cores) > 1)[:2]
    yield first, other, own_node(machine, first)
    first, *others = [cores[0] for cores in mates.values()]
    for other in others:
        home = own_node(machine, first)
        same_socket = sockets[home] == sockets[own_node(machine, other)]
        if machine.llc_at_home_cluster and same_socket:
            home = next(node for node, s in enumerate(sockets) if s != sockets[home])
        yield first, other, home


def own_node(machine: MachineModel, core: int) -> int:
    return machine.node_of_core[core]


@pytest.mark.parametrize("preset", PRESETS)
def test_modified_lines_take_their_latency_at_every_distance(preset: str) -> None:
    machine = native_machine(load_machine(preset))
    domains = max(machine.llc_of_core) + 1
    modified_ns = np.asarray(machine.modified_ns).reshape(domains, domains)
    trace = modified_lines(1_000, 10_000)
    checked = set()
    for first, other, home in pairs_of_cores(machine):
        a, b = machine.llc_of_core[first], machine.llc_of_core[other]
        if modified_ns[a, b] in checked:
            continue
        checked.add(modified_ns[a, b])
        counters = run(machine, trace, [first, other], [home, home])["counters"]
        socket = machine.socket_of_node
        away = socket[own_node(machine, first)] != socket[own_node(machine, other)]
        at_reader = machine.modified_home_reader_ns if away else 0.0
        ns = counters["cycles"] / counters["queries"] / machine.clock_ghz * machine.mlp_dependent
        far = mesh_modified_ns(machine, first, other)
        assert ns[0] == pytest.approx(modified_ns[a, b] + at_reader + far, rel=0.02), (first, other)
        assert ns[1] == pytest.approx(modified_ns[b, a] + far, rel=0.02), (first, other)
    assert checked == {*modified_ns[machine.llc_of_core[workers(machine)[0]]]}
