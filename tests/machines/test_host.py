"""This host as a machine, from a copy of /sys."""

import shutil
from pathlib import Path

from pmoss_env.machines.host import describe_host


def test_a_socket_has_nodes_of_its_own(sysfs_root: Path) -> None:
    machine = describe_host(str(sysfs_root))
    assert machine.socket_of_node.tolist() == [0, 0, 1, 1]


def test_a_node_of_two_packages_is_one_socket(sysfs_root: Path) -> None:
    nodes = sysfs_root / "sys" / "devices" / "system" / "node"
    for node in range(1, 4):
        shutil.rmtree(nodes / f"node{node}")
    (nodes / "node0" / "cpulist").write_text("0-15\n")
    (nodes / "node0" / "distance").write_text("10\n")
    machine = describe_host(str(sysfs_root))
    assert (machine.nodes, machine.sockets) == (1, 1)
    assert machine.socket_of_node.tolist() == [0]
