"""Servers that do not exist: as sysfs trees and as lstopo files."""

from collections.abc import Callable
from pathlib import Path

import pytest

#: Two sockets of two nodes each, two cores per node with two threads, one L3 per node.
CPUS, NODES, CORES = 16, 4, 8


def node_of(core: int) -> int:
    return core // 2


@pytest.fixture
def lstopo_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes an lstopo file; pairs of texts are replaced in it."""

    def write(*changes: tuple[str, str]) -> Path:
        text = _lstopo()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "server.xml"
        path.write_text(text)
        return path

    return write


def _lstopo() -> str:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
        '<topology version="2.0">',
        '<object type="Machine" os_index="0">',
    ]
    for package in range(2):
        lines += [
            f'<object type="Package" os_index="{package}">',
            '<info name="CPUVendor" value="GenuineIntel"/>',
            '<info name="CPUModel" value="Intel(R) Xeon(R) Made-up 1 CPU @ 2.50GHz"/>',
        ]
        for node in (2 * package, 2 * package + 1):
            lines += [
                f'<object type="Group" gp_index="{90 + node}">',
                f'<object type="NUMANode" os_index="{node}" local_memory="{16 << 30}">',
                '<page_type size="4096" count="4194304"/><page_type size="2097152" count="0"/>',
                "</object>",
                '<object type="L3Cache" cache_size="17301504" cache_associativity="11">',
                '<info name="Inclusive" value="0"/>',
            ]
            for core in (2 * node, 2 * node + 1):
                lines += [
                    '<object type="L2Cache" cache_size="1048576" cache_associativity="16">',
                    f'<object type="Core" os_index="{core}">',
                    f'<object type="PU" os_index="{core}"/>',
                    f'<object type="PU" os_index="{core + CORES}"/>',
                    "</object>",
                    "</object>",
                ]
            lines += ["</object>", "</object>"]
        lines.append("</object>")
    lines += [
        "</object>",
        '<distances2 type="NUMANode" nbobjs="4" kind="5" name="NUMALatency" indexing="os">',
        '<indexes length="8">0 1 2 3 </indexes>',
        '<u64values length="24">10 11 21 21 11 10 21 21 </u64values>',
        '<u64values length="24">21 21 10 11 21 21 11 10 </u64values>',
        "</distances2>",
        "</topology>",
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def sysfs_root(tmp_path: Path) -> Path:
    """The server of the lstopo file as a sysfs tree, but with one L3 per socket, as kernels say."""
    root = tmp_path / "root"
    system = root / "sys" / "devices" / "system"

    def write(file: Path, text: object) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    write(
        root / "proc" / "cpuinfo", "processor : 0\nvendor_id : GenuineIntel\nmodel name : Made-up"
    )
    write(system / "cpu" / "online", f"0-{CPUS - 1}")
    for cpu in range(CPUS):
        core = cpu % CORES
        socket = node_of(core) // 2
        folder = system / "cpu" / f"cpu{cpu}"
        write(folder / "topology" / "physical_package_id", socket)
        write(folder / "topology" / "core_id", core % 4)
        write(folder / "topology" / "thread_siblings_list", f"{core},{core + CORES}")
        write(folder / "cpufreq" / "base_frequency", 2_500_000)
        first = 4 * socket
        both = f"{first}-{first + 3},{first + CORES}-{first + CORES + 3}"
        for index, (level, kind, size, ways, cpus) in enumerate(
            [
                (1, "Data", "32K", 8, f"{core},{core + CORES}"),
                (1, "Instruction", "32K", 8, f"{core},{core + CORES}"),
                (2, "Unified", "1024K", 16, f"{core},{core + CORES}"),
                (3, "Unified", "33792K", 11, both),
            ]
        ):
            cache = folder / "cache" / f"index{index}"
            write(cache / "level", level)
            write(cache / "type", kind)
            write(cache / "size", size)
            write(cache / "ways_of_associativity", ways)
            write(cache / "shared_cpu_list", cpus)
    for node, distances in enumerate(["10 11 21 21", "11 10 21 21", "21 21 10 11", "21 21 11 10"]):
        folder = system / "node" / f"node{node}"
        write(folder / "cpulist", f"{2 * node}-{2 * node + 1},{2 * node + 8}-{2 * node + 9}")
        write(folder / "distance", distances)
        write(folder / "meminfo", f"Node {node} MemTotal: {16 << 20} kB")
    return root
