"""From hardware threads to the cores, domains and roles of a machine description."""

import numpy as np

from pmoss_env.machines.importing.layout import lay_out
from pmoss_env.machines.importing.server_facts import HardwareThread, ServerFacts
from pmoss_env.machines.topology import read_topology


def server_facts(
    cpus: list[tuple[int, int, int, int, int]], slit: list[list[int]] | None, nodes: int
) -> ServerFacts:
    return ServerFacts(
        place="nowhere",
        origin="test",
        model="made-up",
        vendor="",
        cpus=tuple(HardwareThread(*cpu) for cpu in cpus),
        nodes=tuple(range(nodes)),
        memory_bytes=(0,) * nodes,
        slit=tuple(tuple(map(float, row)) for row in slit) if slit else None,
        facts={},
    )


def test_a_node_of_four_cores_spares_a_router_and_a_sweeper() -> None:
    # Node 0: four cores of two threads, numbered in pairs; node 1: one core; node 2: memory alone,
    # as close to node 1 as it gets.
    pairs = [(cpu, 0, 0, cpu // 2, 0) for cpu in range(8)]
    server = server_facts([*pairs, (8, 1, 5, 99, 7)], [[10, 21, 28], [21, 10, 14], [28, 14, 10]], 3)
    layout = lay_out(server, split_by_node=False)
    topology = read_topology(layout.topology(), layout.roles())
    assert topology.role_of_core == ("router", "sweeper", *["worker"] * 2, *["other"] * 4, "worker")
    assert topology.socket_of_node.tolist() == [0, 1, 1]
    assert topology.physical_of_core.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert topology.llc_of_core.tolist() == [0] * 8 + [1]


def test_the_closest_sockets_are_joined() -> None:
    cpus = [(cpu, cpu, cpu, cpu, cpu) for cpu in range(4)]
    ring = [[10, 20, 30, 20], [20, 10, 20, 30], [30, 20, 10, 20], [20, 30, 20, 10]]
    layout = lay_out(server_facts(cpus, ring, 4), split_by_node=False)
    assert layout.hops.tolist() == [[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]]
    chain = [[10 + 10 * abs(a - b) for b in range(4)] for a in range(4)]
    for slit in (None, chain, [[10] * 4] * 4):  # unknown, three links long, or telling nothing
        layout = lay_out(server_facts(cpus, slit, 4), split_by_node=False)
        assert (layout.hops == 1 - np.eye(4)).all()
