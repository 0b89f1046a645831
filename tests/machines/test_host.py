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
def made_up(tmp_path: Path) -> Path:
    """Two sockets, two nodes each, four CPUs per node, one shared cache per node."""
    system = tmp_path / "sys" / "devices" / "system"
    cpus, nodes = 16, 4
    (system / "cpu").mkdir(parents=True)
    (system / "cpu" / "online").write_text(f"0-{cpus - 1}\n")
    for cpu in range(cpus):
        node = cpu // 4
        topology = system / "cpu" / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{node // 2}\n")
        (topology / "core_id").write_text(f"{cpu % 8}\n")
        (topology / "thread_siblings_list").write_text(f"{cpu}\n")
        cache = system / "cpu" / f"cpu{cpu}" / "cache" / "index3"
        cache.mkdir(parents=True)
        (cache / "level").write_text("3\n")
        (cache / "type").write_text("Unified\n")
        (cache / "size").write_text("32768K\n")
        (cache / "shared_cpu_list").write_text(f"{4 * node}-{4 * node + 3}\n")
    for node in range(nodes):
        folder = system / "node" / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{4 * node}-{4 * node + 3}\n")
        (folder / "distance").write_text(
            " ".join("10" if other == node else "21" for other in range(nodes)) + "\n"
        )
        (folder / "meminfo").write_text(f"Node {node} MemTotal: 1048576 kB\n")
    (system / "node" / "online").write_text(f"0-{nodes - 1}\n")
    return tmp_path


def test_a_still_larger_host_gives_each_node_a_sweeper(
    made_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmoss_env.machines.host.MIN_CORES_FOR_SWEEPER", 4)
    machine = describe_host(str(made_up))
    assert machine.roles() == {"router": 4, "sweeper": 4, "worker": 8}
    assert machine.role_of_core[:3] == ("router", "sweeper", "worker")


def test_a_larger_host_gives_each_node_a_router(made_up: Path) -> None:
    machine = describe_host(str(made_up))
    assert (machine.sockets, machine.nodes, machine.cores) == (2, 4, 16)
    assert (machine.rows, machine.cols) == (4, 4)
    assert machine.socket_of_node.tolist() == [0, 0, 1, 1]
    assert machine.roles() == {"router": 4, "worker": 12}
    assert machine.llc_of_core.tolist() == [n for n in range(4) for _ in range(4)]
    assert sorted(machine.tile_of_core.tolist()) == list(range(16))


def roles_of(nodes: int, cores: int, threads: int) -> tuple[str, ...]:
    """Of a host whose nodes have as many cores, each with so many hardware threads."""
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
        (1, 12, [2]),  # the stitcher shares with the sweeper off the cores
        (1, 16, [3]),
        (2, 12, [2, 2]),
        (2, 16, [2, 2]),
        (4, 16, [2, 2, 1, 1]),
    ],
)
def test_the_sweeper_off_the_cores_and_the_stitcher_have_cores_where_there_are_enough(
    nodes: int, cores: int, sweepers: list[int]
) -> None:
    roles = roles_of(nodes, cores, threads=1)
    of_node = [roles[n * cores : (n + 1) * cores] for n in range(nodes)]
    assert [node.count("sweeper") for node in of_node] == sweepers
    assert all(node.count("router") == 1 for node in of_node)
