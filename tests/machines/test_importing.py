"""Machines imported from servers that do not exist, from this host, and from lstopo."""

import json
import os
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.host import _roles
from pmoss_env.machines.importing import import_machine, lstopo, read_host, read_lstopo
from pmoss_env.machines.importing.describing import describe_server
from pmoss_env.machines.importing.layout import lay_out
from pmoss_env.machines.importing.server_facts import HardwareThread, ServerFacts
from pmoss_env.machines.importing.toml_text import machine_toml
from pmoss_env.machines.topology import read_topology
from tests.cli.invoking import pmoss
from tests.machines.serving import assert_served

LstopoFile = Callable[..., Path]
run = partial(pmoss, "data", "import-machine")


def imported(path: Path) -> Machine:
    return Machine.from_dict(tomllib.loads(import_machine(read_lstopo(path), "made-up")))


def test_every_parameter_is_read_or_a_marked_guess(lstopo_file: LstopoFile) -> None:
    machine = imported(lstopo_file())
    read = {"clock_ghz": 2.5, "l2_kib": 1024, "l2_ways": 16, "llc_kib": 16896, "llc_ways": 11}
    read |= {"llc_inclusive": 0, "page_bytes": 4096}
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
    path = tmp_path / "this.toml"
    path.write_text(import_machine(read_host(), "this"))
    assert_served(str(path))
    with pytest.raises(DescriptionError, match='name = "host": means the host that reads it'):
        import_machine(read_host(), "host")
    assert load_machine(str(path)).parameters["dram_local_ns"].confidence == "low"


def test_the_command_writes_a_machine_that_serves(lstopo_file, sysfs_root, tmp_path):
    path = tmp_path / "server.toml"
    run(str(lstopo_file()), "--out", str(path))
    assert load_machine(str(path)).name == "server"
    assert_served(str(path))
    before = path.read_text()
    assert "exists: give --overwrite" in run(
        "--sysfs", str(sysfs_root), "--out", str(path), status=2
    )
    assert path.read_text() == before
    run("--sysfs", str(sysfs_root), "--out", str(path), "--overwrite")
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
        assert complaint in " ".join(run(*words, "--out", str(path), status=2).split())
        assert not path.parent.exists()
    assert "must end in .toml" in run(xml, "--out", json.dumps("x"), status=2)


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
        **{"place": "nowhere", "origin": "test", "model": "made-up", "vendor": "", "facts": {}},
        cpus=tuple(HardwareThread(*cpu) for cpu in cpus),
        nodes=tuple(range(nodes)),
        memory_bytes=(0,) * nodes,
        slit=tuple(tuple(map(float, row)) for row in slit) if slit else None,
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


def test_a_host_is_read(sysfs_root: Path) -> None:
    server = read_host(str(sysfs_root))
    assert [cpu.id for cpu in server.cpus] == list(range(16))
    assert [cpu.node for cpu in server.cpus] == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert [cpu.physical for cpu in server.cpus] == list(range(8)) * 2
    assert [cpu.llc for cpu in server.cpus] == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert server.memory_bytes == (16 << 30,) * 4
    assert server.slit is not None and server.slit[0] == (10, 11, 21, 21)
    read = {"clock_ghz": 2.5, "l2_kib": 1024, "l2_ways": 16, "llc_kib": 33792, "llc_ways": 11}
    assert {name: fact.value for name, fact in server.facts.items()} == read
    assert {fact.confidence for fact in server.facts.values()} == {"high"}


def test_the_clock_is_the_base_frequency_where_one_is_given(sysfs_root: Path) -> None:
    frequency = sysfs_root / "sys/devices/system/cpu/cpu0/cpufreq"
    cpuinfo = sysfs_root / "proc" / "cpuinfo"

    def clock() -> tuple[float, str]:
        fact = read_host(str(sysfs_root)).facts["clock_ghz"]
        return fact.value, fact.confidence

    (frequency / "cpuinfo_max_freq").write_text("3900000\n")
    assert clock() == (2.5, "high")
    (frequency / "base_frequency").unlink()
    cpuinfo.write_text("model name : Made-up CPU @ 2.60GHz\ncpu MHz : 1999.5\n")
    assert clock() == (2.6, "medium")
    cpuinfo.write_text("model name : Made-up CPU\ncpu MHz\t\t: 1999.5\n")
    assert clock() == (3.9, "medium")
    (frequency / "cpuinfo_max_freq").unlink()
    assert clock() == (1.9995, "medium")
    cpuinfo.unlink()
    assert "clock_ghz" not in read_host(str(sysfs_root)).facts


def test_without_a_third_level_a_socket_is_one_domain(sysfs_root: Path) -> None:
    for level in sysfs_root.glob("sys/devices/system/cpu/cpu*/cache/index3/level"):
        level.write_text("1\n")
    server = read_host(str(sysfs_root))
    assert [cpu.llc for cpu in server.cpus] == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert "llc_kib" not in server.facts and server.facts["l2_kib"].value == 1024


def test_a_shared_l2_counts_per_core(sysfs_root: Path) -> None:
    for shared in sysfs_root.glob("sys/devices/system/cpu/cpu*/cache/index2/shared_cpu_list"):
        cpu = int(shared.parts[-4].removeprefix("cpu")) % 8
        shared.write_text(f"{cpu & ~1}-{cpu | 1},{(cpu & ~1) + 8}-{(cpu | 1) + 8}\n")
    assert read_host(str(sysfs_root)).facts["l2_kib"].value == 512


def test_a_tree_that_no_kernel_writes_is_refused(sysfs_root: Path, tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="nowhere: no online CPU under"):
        read_host(str(tmp_path / "nowhere"))
    (sysfs_root / "sys/devices/system/node/node0/distance").write_text("10 11\n")
    with pytest.raises(DescriptionError, match="root: node 0 lists 2 distances for 4 nodes"):
        read_host(str(sysfs_root))


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
        assert node[:2] == ("router", "sweeper") and node[8:10] == ("other", "other")
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


HWLOC_DTD = '<!DOCTYPE topology SYSTEM "hwloc2.dtd">'


def test_a_server_is_read(lstopo_file: LstopoFile) -> None:
    server = read_lstopo(lstopo_file())
    assert [cpu.id for cpu in server.cpus] == list(range(16))
    assert [cpu.node for cpu in server.cpus] == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert [cpu.socket for cpu in server.cpus] == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert [cpu.physical for cpu in server.cpus] == list(range(8)) * 2
    assert server.memory_bytes == (16 << 30,) * 4
    assert server.slit is not None and server.slit[2] == (21, 21, 10, 11)
    assert server.vendor == "GenuineIntel"


def test_values_that_differ_are_the_most_common_with_less_confidence(lstopo_file):
    fact = read_lstopo(lstopo_file(('cache_size="1048576"', 'cache_size="524288"'))).facts["l2_kib"]
    assert (fact.value, fact.confidence) == (1024, "medium")
    assert fact.source == "lstopo XML, L2Cache: so 14 of 16 CPUs"


def test_unknown_values_are_not_read(lstopo_file: LstopoFile) -> None:
    text = lstopo_file().read_text()
    for valid, unknown in [
        (' cache_associativity="11"', ' cache_associativity="-1"'),
        (' cache_associativity="16"', ""),
        (' cache_size="17301504"', ""),
        ("@ 2.50GHz", "@ fast"),
    ]:
        text = text.replace(valid, unknown)
    path = lstopo_file()
    path.write_text(text)
    assert set(read_lstopo(path).facts) == {"l2_kib", "llc_inclusive", "page_bytes"}


def test_the_base_frequency_is_preferred(lstopo_file: LstopoFile) -> None:
    kind = (
        '<cpukind cpuset="0xffff"><info name="FrequencyMaxMHz" value="3900"/>'
        '<info name="FrequencyBaseMHz" value="2600"/></cpukind></topology>'
    )
    frequencies = ("</topology>", kind)
    nameless, baseless = ("@ 2.50GHz", ""), ("FrequencyBaseMHz", "Misc")
    for changes, ghz, confidence in [
        ((frequencies,), 2.6, "high"),
        ((frequencies, baseless), 2.5, "medium"),
        ((frequencies, baseless, nameless), 3.9, "medium"),
    ]:
        fact = read_lstopo(lstopo_file(*changes)).facts["clock_ghz"]
        assert (fact.value, fact.confidence) == (ghz, confidence)


def test_an_l2_that_lstopo_shares_counts_per_core(lstopo_file: LstopoFile) -> None:
    path = lstopo_file()
    cache = '<object type="L2Cache" cache_size="1048576" cache_associativity="16">'
    second_cache = f"</object>\n</object>\n{cache}"
    text = path.read_text()
    assert text.count(second_cache) == 4
    path.write_text(text.replace(second_cache, "</object>"))
    assert read_lstopo(path).facts["l2_kib"].value == 512


def test_the_first_of_two_nodes_in_one_place_has_the_cores(lstopo_file: LstopoFile) -> None:
    # Persistent memory behind a memory-side cache, beside the DRAM of node 0.
    bare = '<object type="MemCache"><object type="NUMANode" os_index="4"/></object>\n'
    dram = '<object type="NUMANode" os_index="0"'
    server = read_lstopo(lstopo_file((dram, bare + dram)))
    assert server.nodes == (0, 1, 2, 3, 4)
    assert {cpu.node for cpu in server.cpus} == {0, 1, 2, 3}
    assert server.socket_of_bare_node[4] == 0
    assert server.slit is None  # the file has distances of four nodes only


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("</topology>", "", r"line \d+: is not valid XML: no element found"),
        ("<object", "<<object", "line 4: is not valid XML"),
        (HWLOC_DTD, '<!DOCTYPE topology SYSTEM "file:///etc/passwd">', "line 2: has a document"),
        (HWLOC_DTD, '<!DOCTYPE topology PUBLIC "a" "hwloc2.dtd">', "line 2: has a document"),
        (HWLOC_DTD, '<!DOCTYPE topology [<!ENTITY a "b">]>', "line 2: has a document type"),
        (HWLOC_DTD, '<!DOCTYPE topology SYSTEM "hwloc2.dtd" []>', "line 2: has a document type"),
        ("</topology>", "&secret;</topology>", r"line \d+: has an entity"),
        ('<topology version="2.0">', '<topology version="1.11">', "line 3: is of hwloc 1.11"),
        ('<topology version="2.0">', "<topology>", "line 3: is of hwloc 1"),
        (' version="2.0">', ">" + "<object>" * 70, "line 3: is nested deeper than 64"),
        ('"Core" os_index="3"', '"Corn" os_index="3"', r"line \d+: PU 3 is in no object of type"),
        ('"PU" os_index="9"', '"PU" os_index="8"', r"line \d+: PU 8 is there twice"),
        ('"PU" os_index="9"', '"PU" os_index="-9"', r"line \d+: PU: os_index = '-9': must be"),
        ('"PU" os_index="9"', '"PU"', r"line \d+: PU: os_index = '': must be a whole"),
        ('"NUMANode" os_index="1"', '"NUMANode" os_index="0"', "NUMANode have the same os_index"),
        ('"NUMANode" os_index="1"', '"Misc" os_index="1"', r"PU 2 has no object of type NUMANode"),
        ('cache_size="1048576"', 'cache_size="big"', "L2Cache: cache_size = 'big': must be"),
        ("10 11 21 21", "10 11 21", r"line \d+: distances2: must have 4 x 4 whole numbers"),
    ],
)
def test_what_lstopo_did_not_write_is_refused(lstopo_file, old, new, complaint):
    with pytest.raises(DescriptionError, match=rf"server.xml: .*{complaint}"):
        read_lstopo(lstopo_file((old, new)))


def test_files_without_nodes_or_cpus_are_refused(lstopo_file: LstopoFile) -> None:
    for kind in ("NUMANode", "PU"):
        path = lstopo_file()
        path.write_text(path.read_text().replace(f'<object type="{kind}"', '<object type="Misc"'))
        with pytest.raises(DescriptionError, match=rf"has no object of type {kind}: must have"):
            read_lstopo(path)


def test_foreign_missing_and_huge_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "server.xml"
    with pytest.raises(DescriptionError, match=r"server.xml: cannot be read: No such file"):
        read_lstopo(path)
    path.write_text("<html></html>")
    with pytest.raises(DescriptionError, match="line 1: begins with <html>"):
        read_lstopo(path)
    monkeypatch.setattr(lstopo, "MAX_BYTES", 1 << 20)
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(DescriptionError, match="has more than 1048576 bytes"):
        read_lstopo(path)
