"""Imports a Linux host, or a copy of its sysfs tree."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pmoss_env import _native
from pmoss_env.errors import DescriptionError
from pmoss_env.machines.importing.server_facts import (
    Fact,
    HardwareThread,
    ServerFacts,
    clock_in_name,
    most_common,
    number,
)
from pmoss_env.platforms import require_host

_ORIGIN = "sysfs"


def read_host(root: str = "/") -> ServerFacts:
    """Reads the server whose ``/sys`` (and ``/proc/cpuinfo``) lies under ``root``.

    All online CPUs count, also those that this process may not use.

    Raises:
        DescriptionError: the tree is not one of a Linux kernel; names folder and reason.
        PlatformError: a portable build, which does not read its host.
    """
    require_host("a machine that is read from /sys")
    try:
        topology = _native.host_topology(root)
    except RuntimeError as error:
        raise DescriptionError(f"{root}: {error}") from error
    cpus, nodes, llcs = topology["cpus"], topology["nodes"], topology["llcs"]
    place = {node["id"]: i for i, node in enumerate(nodes)}
    slit = tuple(tuple(float(d) for d in node["distances"]) for node in nodes)
    facts = _native.host_facts(root)
    model = facts["cpu_model"] if facts["cpu_model"] != "unknown" else "unknown processor"
    physical = number(min(cpu["siblings"]) for cpu in cpus)
    # Without a third level, the kernel's last level is the L2: then a socket is a domain.
    shared = [llcs[cpu["llc"]]["level"] >= 3 for cpu in cpus]
    llc = number(
        ("cache", cpu["llc"]) if is_shared else ("socket", cpu["package"])
        for cpu, is_shared in zip(cpus, shared, strict=True)
    )
    return ServerFacts(
        place=root,
        origin=_ORIGIN,
        model=model,
        vendor=facts["cpu_vendor"],
        cpus=tuple(
            HardwareThread(cpu["id"], place[cpu["node"]], cpu["package"], physical[i], llc[i])
            for i, cpu in enumerate(cpus)
        ),
        nodes=tuple(node["id"] for node in nodes),
        memory_bytes=tuple(node["memory_bytes"] for node in nodes),
        slit=slit if all(len(row) == len(nodes) for row in slit) else None,
        facts=_facts(root, model, {cpu["id"]: physical[i] for i, cpu in enumerate(cpus)}, cpus[0]),
    )


def _facts(
    root: str, model: str, physical_of_cpu: dict[int, int], first: dict[str, int]
) -> dict[str, Fact]:
    system = Path(root) / "sys/devices/system/cpu"
    facts: dict[str, Fact | None] = {}
    for name, level in (("l2", 2), ("llc", 3)):
        caches = [_cache(system / f"cpu{cpu}" / "cache", level) for cpu in physical_of_cpu]
        # A machine description has the L2 per physical core, also where cores share it.
        size = [
            kib / (_sharers(cpus, physical_of_cpu) if name == "l2" else 1)
            for kib, _, cpus in caches
        ]
        facts[f"{name}_kib"] = most_common(size, f"{_ORIGIN}, cache/index*/size")
        facts[f"{name}_ways"] = most_common(
            (ways for _, ways, _ in caches), f"{_ORIGIN}, cache/index*/ways_of_associativity"
        )
    facts["clock_ghz"] = _clock(root, system / f"cpu{first['id']}" / "cpufreq", model)
    if root == "/":
        facts["page_bytes"] = Fact(float(os.sysconf("SC_PAGESIZE")), "getconf PAGESIZE", "high")
    return {name: fact for name, fact in facts.items() if fact is not None}


def _cache(folder: Path, level: int) -> tuple[float, float, str]:
    """Size in KiB, ways, and CPUs of the data cache of a level; 0 where unknown."""
    for index in sorted(folder.glob("index*")):
        if _text(index / "level") == str(level) and _text(index / "type") != "Instruction":
            size = re.fullmatch(r"(\d+)([KMG])", _text(index / "size"))
            kib = int(size[1]) * 1024 ** "KMG".index(size[2]) if size else 0
            ways = _text(index / "ways_of_associativity")
            shared = _text(index / "shared_cpu_list")
            return float(kib), float(ways) if ways.isdecimal() else 0.0, shared
    return 0.0, 0.0, ""


def _sharers(cpu_list: str, physical_of_cpu: dict[int, int]) -> int:
    """Physical cores in a list of CPUs such as "0-3,8"."""
    cores = set()
    for part in cpu_list.split(","):
        ends = part.split("-")
        if all(end.isdecimal() for end in ends):
            within = range(int(ends[0]), int(ends[-1]) + 1)
            cores |= {core for cpu, core in physical_of_cpu.items() if cpu in within}
    return max(len(cores), 1)


def _clock(root: str, folder: Path, model: str) -> Fact | None:
    """The base frequency where the kernel or the processor's name gives it, else the highest."""
    if khz := _khz(folder / "base_frequency"):
        return Fact(khz / 1e6, f"{_ORIGIN}, cpufreq/base_frequency", "high")
    if fact := clock_in_name(model, "/proc/cpuinfo"):
        return fact
    if khz := _khz(folder / "cpuinfo_max_freq"):
        return Fact(khz / 1e6, f"{_ORIGIN}, cpufreq/cpuinfo_max_freq", "medium")
    now = re.search(r"^cpu MHz\s*:\s*(\d+\.?\d*)", _text(Path(root) / "proc/cpuinfo"), re.MULTILINE)
    if now and float(now[1]) > 0:
        return Fact(float(now[1]) / 1e3, "/proc/cpuinfo, cpu MHz at the time", "medium")
    return None


def _khz(file: Path) -> int:
    text = _text(file)
    return int(text) if text.isdecimal() else 0


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
