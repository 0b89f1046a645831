"""Machines imported from servers that do not exist, and from this host."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.importing import import_machine, read_host, read_lstopo
from pmoss_env.machines.importing.describing import describe_server
from pmoss_env.machines.importing.layout import lay_out
from pmoss_env.machines.importing.server_facts import HardwareThread, ServerFacts
from pmoss_env.machines.importing.toml_text import machine_toml
from pmoss_env.machines.topology import read_topology
from tests.machines.serving import assert_served

LstopoFile = Callable[..., Path]
PMOSS = Path(sys.executable).with_name("pmoss")


def imported(path: Path) -> Machine:
    return Machine.from_dict(tomllib.loads(import_machine(read_lstopo(path), "made-up")))


def test_every_parameter_is_read_or_a_marked_guess(lstopo_file: LstopoFile) -> None:
    machine = imported(lstopo_file())
    read = {
        "clock_ghz": 2.5,
        "l2_kib": 1024,
        "l2_ways": 16,
        "llc_kib": 16896,
        "llc_ways": 11,
        "llc_inclusive": 0,
        "page_bytes": 4096,
    }
    assert {name: machine.parameter(name) for name in read} == read
    for name, parameter in machine.parameters.items():
        guessed = "guess: " in parameter.source
        assert guessed == (name not in read), name
        assert (parameter.confidence == "low") == guessed, name
    assert machine.parameters["l2_kib"].source == "lstopo XML, L2Cache"


def test_guesses_follow_their_rule(lstopo_file: LstopoFile) -> None:
    machine = imported(lstopo_file())
    peers = ("sandy-bridge", "skylake-x-4n", "skylake-x-8n", "uv-300h", "xeon-6240m-optane")
    ipc = [load_machine(peer).parameter("instructions_per_cycle") for peer in peers]
    assert machine.parameter("instructions_per_cycle") == np.median(ipc)
    # Latencies grow with the firmware's distance, anchored at the other socket.
    near, far = machine.distances.dram_ns[0, [1, 2]] / machine.distances.dram_ns[0, 0]
    assert far == pytest.approx(1.6, abs=0.15)
    assert near == pytest.approx(1 + (far - 1) / 11, abs=0.01)
    assert "that the firmware reports (lstopo XML)" in machine.parameters["dram_ns"].source


def test_without_distances_nodes_differ_by_socket(lstopo_file: LstopoFile) -> None:
    machine = imported(lstopo_file(('type="NUMANode" nbobjs', 'type="Core" nbobjs')))
    latency = machine.distances.dram_ns[0]
    assert latency[0] < latency[1] < latency[2] == latency[3]
    assert "dram_ns" not in machine.parameters


def test_intel_caches_that_span_nodes_are_split(sysfs_root: Path) -> None:
    text = import_machine(read_host(str(sysfs_root)), "made-up")
    machine = Machine.from_dict(tomllib.loads(text))
    assert machine.parameter("llc_kib") == 16896
    assert machine.parameter("llc_at_home_cluster") == 1
    assert machine.llc_of_core.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert machine.parameters["llc_kib"].confidence == "medium"
    assert "over 2 sub-NUMA clusters" in machine.parameters["llc_kib"].source


def test_what_is_written_reads_back_equal(lstopo_file: LstopoFile) -> None:
    path = lstopo_file(("Made-up 1", "&quot;é&quot; \\ \x7f&#10;] #"))
    data = describe_server(read_lstopo(path), 'a "name"\t')
    assert '"é" \\ \x7f\n] #' in data["description"]
    assert tomllib.loads(machine_toml(data)) == data


def test_this_host_can_be_modelled(tmp_path: Path) -> None:
    path = tmp_path / "host.toml"
    path.write_text(import_machine(read_host(), "host"))
    assert_served(str(path))
    assert load_machine(str(path)).parameters["dram_local_ns"].confidence == "low"


def run(*words: str, status: int = 0) -> str:
    done = subprocess.run(
        [str(PMOSS), "data", "import-machine", *words], capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def test_the_command_writes_a_machine_that_serves(lstopo_file, sysfs_root, tmp_path):
    path = tmp_path / "server.toml"
    run(str(lstopo_file()), "--output", str(path))
    assert load_machine(str(path)).name == "server"
    assert_served(str(path))
    before = path.read_text()
    assert "exists: give --force" in run(
        "--sysfs", str(sysfs_root), "--output", str(path), status=2
    )
    assert path.read_text() == before
    run("--sysfs", str(sysfs_root), "--output", str(path), "--force")
    assert "imported from sysfs" in path.read_text() != before
    printed = tomllib.loads(run("--sysfs", str(sysfs_root)))
    assert printed["name"] == "imported"
    assert printed["parameters"] == tomllib.loads(path.read_text())["parameters"]


def test_a_refused_command_writes_nothing(lstopo_file, sysfs_root, tmp_path):
    path, csv = tmp_path / "out" / "server.toml", tmp_path / "c2c.csv"
    csv.write_text("0,1\n1,0\n")
    xml = str(lstopo_file())
    for words, complaint in [
        ((xml, "--sysfs", str(sysfs_root)), "cannot be given beside"),
        (("--sysfs", str(tmp_path)), "no online CPU under"),
        ((str(csv),), "c2c.csv: line 1: is not valid XML"),
    ]:
        assert complaint in " ".join(run(*words, "--output", str(path), status=2).split())
        assert not path.parent.exists()
    assert "must end in .toml" in run(xml, "--output", json.dumps("x"), status=2)


def test_a_server_without_a_possible_description_is_refused(sysfs_root: Path) -> None:
    for shared in sysfs_root.glob("sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list"):
        shared.write_text("0-15\n")
    (sysfs_root / "proc" / "cpuinfo").write_text("vendor_id : AuthenticAMD\n")
    complaint = "root: topology.llc_of_core: last-level cache 0 spans sockets 0 and 1"
    with pytest.raises(DescriptionError, match=complaint):
        import_machine(read_host(str(sysfs_root)), "made-up")


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
