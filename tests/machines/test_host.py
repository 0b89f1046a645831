import os

import numpy as np
import pytest

from pmoss_env.machines import load_machine
from pmoss_env.machines.host import _roles


def test_this_host_has_the_cpus_that_this_process_may_use() -> None:
    machine = load_machine("host")
    assert set(machine.cpu_of_core.tolist()) == os.sched_getaffinity(0)
    assert len(machine.workers) >= 1


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
    nodes, cores, sweepers
):
    roles = roles_of(nodes, cores, threads=1)
    roles_by_node = [roles[n * cores : (n + 1) * cores] for n in range(nodes)]
    assert [node.count("sweeper") for node in roles_by_node] == sweepers
    assert all(node.count("router") == 1 for node in roles_by_node)
