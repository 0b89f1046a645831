import os
from pathlib import Path

import numpy as np
import pytest

from pmoss_env.machines import load_machine
from pmoss_env.machines.host import _roles, describe_host


def test_this_host_has_the_cpus_that_this_process_may_use() -> None:
    machine = load_machine("host")
    assert set(machine.cpu_of_core.tolist()) == os.sched_getaffinity(0)
    assert len(machine.workers) >= 1


@pytest.fixture
def four_cores_per_node(sysfs_root: Path) -> str:
    """Two sockets of two nodes, four cores of one thread per node."""
    for siblings in sysfs_root.glob("sys/devices/system/cpu/cpu*/topology/thread_siblings_list"):
        siblings.write_text(siblings.parts[-3].removeprefix("cpu"))
    return str(sysfs_root)


def test_a_larger_host_gives_each_node_a_router(four_cores_per_node: str) -> None:
    machine = describe_host(four_cores_per_node)
    assert (machine.sockets, machine.nodes, machine.cores) == (2, 4, 16)
    assert (machine.rows, machine.cols) == (4, 4)
    assert machine.socket_of_node.tolist() == [0, 0, 1, 1]
    assert machine.roles() == {"router": 4, "worker": 12}
    assert machine.llc_of_core.tolist() == [0] * 8 + [1] * 8
    assert sorted(machine.tile_of_core.tolist()) == list(range(16))


def roles_of(nodes: int, cores: int, threads: int) -> tuple[str, ...]:
    """The roles on a host of `nodes`, each with `cores` of so many hardware threads."""
    # As Linux often numbers them: all first threads of a node, then all second ones.
    core = np.tile(np.arange(cores), threads)
    physical = np.concatenate([core + n * cores for n in range(nodes)]).astype(np.int32)
    return _roles(np.repeat(np.arange(nodes), cores * threads).astype(np.int32), physical)


def test_siblings_of_routers_and_sweepers_have_no_role() -> None:
    roles = roles_of(nodes=2, cores=8, threads=2)
    for node in (roles[:16], roles[16:]):
        assert node[:2] == ("router", "sweeper")
        assert node[8:10] == ("other", "other")
        assert set(node[2:8] + node[10:]) == {"worker"}
    # Eight CPUs, but four cores: a router, and no sweeper.
    assert roles_of(nodes=1, cores=4, threads=2)[::4] == ("router", "other")
    assert roles_of(nodes=1, cores=4, threads=2).count("worker") == 6
    assert set(roles_of(nodes=2, cores=2, threads=2)) == {"worker"}


@pytest.mark.parametrize(
    ("nodes", "cores", "sweepers"),
    [
        (1, 11, [1]),
        (1, 12, [2]),  # the stitcher and the off-core sweeper share a core
        (1, 16, [3]),
        (2, 12, [2, 2]),
        (2, 16, [2, 2]),
        (4, 16, [2, 2, 1, 1]),
    ],
)
def test_the_off_core_sweeper_and_the_stitcher_have_cores_where_there_are_enough(
    nodes: int, cores: int, sweepers: list[int]
) -> None:
    roles = roles_of(nodes, cores, threads=1)
    roles_by_node = [roles[n * cores : (n + 1) * cores] for n in range(nodes)]
    assert [node.count("sweeper") for node in roles_by_node] == sweepers
    assert all(node.count("router") == 1 for node in roles_by_node)
