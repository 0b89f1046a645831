"""Reading a host from the files of its kernel."""

from pathlib import Path

import pytest

from pmoss_env.errors import DescriptionError
from pmoss_env.machines.importing import read_host


def test_a_host_is_read(sysfs_root: Path) -> None:
    server = read_host(str(sysfs_root))
    assert [cpu.id for cpu in server.cpus] == list(range(16))
    assert [cpu.node for cpu in server.cpus] == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert [cpu.physical for cpu in server.cpus] == list(range(8)) * 2
    assert [cpu.llc for cpu in server.cpus] == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert server.memory_bytes == (16 << 30,) * 4
    assert server.slit is not None and server.slit[0] == (10, 11, 21, 21)
    values = {name: fact.value for name, fact in server.facts.items()}
    assert values == {
        "clock_ghz": 2.5,
        "l2_kib": 1024,
        "l2_ways": 16,
        "llc_kib": 33792,
        "llc_ways": 11,
    }
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
