"""Every level and every distance of every preset takes its configured time in the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from pmoss_env._native import Interference, MachineModel, SimulatedServer, Trace, pointer_chase
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.machines import load_machine, machine_names

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
