import os
from pathlib import Path

import pytest

from pmoss_env.machines import load_machine
from pmoss_env.machines.host import describe_host


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
    monkeypatch.setattr("pmoss_env.machines.host.SPARE_A_SWEEPER", 4)
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
