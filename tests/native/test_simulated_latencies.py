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
    streaming,
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


@pytest.mark.parametrize("written_share", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("preset", ["skylake-x-8n", "skylake-x-4n", "sandy-bridge"])
def test_streams_saturate_a_node_and_a_link(preset: str, written_share: float) -> None:
    machine = native_machine(load_machine(preset))
    node, socket = machine.node_of_core, machine.socket_of_node
    of_socket = [core for core in workers(machine) if socket[node[core]] == 0]
    cores = [of_socket[i % len(of_socket)] for i in range(24)]
    # Small caches fill sooner.
    machine.l2_lines /= 8
    machine.llc_lines /= 8
    trace = streaming(24, 5_000, 32, 24_000, written_share)
    # Fewer channels, so that the outstanding misses of one socket's cores are enough.
    machine.dram_gb_per_s = [gb_per_s / 16 for gb_per_s in machine.dram_gb_per_s]
    machine.dram_write_gb_per_s = [gb_per_s / 16 for gb_per_s in machine.dram_write_gb_per_s]
    own = run(machine, trace, cores, [0] * 24)
    read, written = own["read_gb_per_s"][0], own["write_gb_per_s"][0]
    use = read / machine.dram_gb_per_s[0] + written / machine.dram_write_gb_per_s[0]
    assert use == pytest.approx(1.0, abs=0.03)
    assert written == pytest.approx(written_share * read, rel=0.05)
    machine.dram_gb_per_s = [1e4] * len(socket)
    machine.dram_write_gb_per_s = [1e4] * len(socket)
    machine.link_gb_per_s = [gb_per_s / 8 for gb_per_s in machine.link_gb_per_s]
    far = run(machine, trace, cores, [socket.index(1)] * 24)
    links = np.asarray(far["link_gb_per_s"]).reshape(max(socket) + 1, -1)
    configured = np.asarray(machine.link_gb_per_s).reshape(links.shape)
    assert links[1, 0] == pytest.approx(configured[1, 0], rel=0.03)
    assert links[0, 1] == pytest.approx(written_share * links[1, 0], rel=0.05)
