"""Placements as commands and settings: numactl, cgroups, systemd and Kubernetes.

All four place processes of an operator, not slices. So a placement becomes units: CPUs, and the
nodes of memory that belong to them. A process, or an instance of a database, runs in each.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pmoss_env.checks import check_name
from pmoss_env.files import write_atomically
from pmoss_env.machines import Machine
from pmoss_env.machines.description import ranges
from pmoss_env.machines.host import kernel_nodes
from pmoss_env.types import Int32Array, Schedule
from pmoss_env.version import __version__

#: Names of Kubernetes have no more characters.
_MAX_NAME = 50
#: In place of a node, where it is any.
_ANY = -1


@dataclass(frozen=True)
class Unit:
    """What one process gets.

    Attributes:
        name: ``nodeN``, with ``-memoryM`` where the data lie on another node; or ``all``.
        cpus: the kernel's numbers, ascending.
        nodes: of its memory, the kernel's numbers, ascending.
        slices: whose queries it runs, ascending.
        memory: "bind", "interleave", or "local" for the kernel's own first touch.
    """

    name: str
    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    slices: tuple[int, ...]
    memory: str

    @property
    def numactl(self) -> list[str]:
        """The command in front of the unit's own."""
        memory = {"local": "--localalloc", "bind": f"--membind={ranges(self.nodes)}"}
        memory["interleave"] = f"--interleave={ranges(self.nodes)}"
        return ["numactl", f"--physcpubind={ranges(self.cpus)}", memory[self.memory], "--"]


def units_of(machine: Machine, schedule: Schedule) -> list[Unit]:
    """The units of a schedule, by the node of their CPUs, then by that of their data.

    Args:
        machine: its CPUs have the kernel's numbers on this host, and their own in a description.
        schedule: checked for the machine.
    """
    kernel, everywhere = kernel_nodes(machine), np.unique(machine.node_of_core[machine.workers])
    memory = {"slice": "bind", "interleaved": "interleave", "first_touch": "local"}[schedule.data]
    homes, nodes = machine.node_of_core[schedule.cores], schedule.nodes
    if schedule.routing == "any":
        homes = np.full_like(homes, _ANY)
    if memory != "bind":
        nodes = np.full_like(nodes, _ANY)
    units = []
    for home, node in sorted(set(zip(homes.tolist(), nodes.tolist(), strict=True))):
        slices = np.flatnonzero((homes == home) & (nodes == node))
        cores, name = np.unique(schedule.cores[slices]), f"node{kernel[home]}"
        if schedule.routing == "any":
            cores, name = machine.workers, "all"
        elif schedule.routing == "node":
            cores = machine.workers_of_node[home]
        if node not in (home, _ANY):
            name += f"-memory{kernel[node]}"
        of_memory = kernel[everywhere if node == _ANY else [node]]
        units.append(_unit(machine, name, cores, of_memory, slices, memory))
    return units


def _unit(
    machine: Machine, name: str, cores: Int32Array, nodes: Any, slices: Any, memory: str
) -> Unit:
    cpus = np.sort(machine.cpu_of_core[cores]).tolist()
    return Unit(name, tuple(cpus), tuple(nodes.tolist()), tuple(slices.tolist()), memory)


def placement_name(name: str) -> str:
    """The name of a placement in files and units: small letters, digits and hyphens."""
    words = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    return words[:_MAX_NAME].strip("-") or "placement"


def export_placement(
    mechanism: str, machine: Machine, schedule: Schedule, folder: Path, name: str
) -> list[Path]:
    """Writes a placement.

    Args:
        mechanism: one of MECHANISMS.
        folder: of the files; made if it is not there.
        name: of the placement; see placement_name(). What an earlier export of the same name wrote
            for further units is removed.

    Returns:
        The files.

    Raises:
        UnknownNameError: another mechanism.
        ScheduleError: the machine cannot run the schedule.
    """
    check_name("mechanism", mechanism, MECHANISMS)
    machine.check_schedule(schedule, schedule.slices)
    name = placement_name(name)
    texts = MECHANISMS[mechanism](machine, units_of(machine, schedule), name)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{name}-*.conf"):  # of units that this placement no longer has
        with suppress(OSError):  # what cannot be read is not ours
            kept = old.name in texts or not old.is_file()
            if not kept and old.read_bytes().startswith(_head(name).encode()):
                old.unlink()
    for file, text in texts.items():
        write_atomically(folder / file, text)
        if text.startswith("#!"):
            mode = (folder / file).stat().st_mode
            (folder / file).chmod(mode | (mode & 0o444) >> 2)  # to run for all who may read it
    return [folder / file for file in texts]


def _head(name: str) -> str:
    """What the files of a placement begin with, before the version."""
    return f"# Placement {name} by pmoss"


def _about(machine: Machine, name: str) -> list[str]:
    """Comments for the head of a file."""
    routers = np.flatnonzero(np.array(machine.role_of_core) == "router")
    text = [f"{_head(name)} {__version__}."]
    if machine.name != "host":
        text.append("# CPUs and nodes are those of a description: compare them with lscpu.")
    if routers.size:
        cpus = ranges(np.sort(machine.cpu_of_core[routers]).tolist())
        text.append(f"# CPUs {cpus} route queries: leave them to what receives requests.")
    return text


def _numactl(machine: Machine, units: list[Unit], name: str) -> dict[str, str]:
    lines = ["#!/bin/sh", *_about(machine, name), f"# Usage: ./{name}.sh UNIT COMMAND..."]
    lines += ["set -eu", "if [ $# -ge 2 ]; then unit=$1; shift; else unit=; fi", 'case "$unit" in']
    for unit in units:
        lines.append(f"  # slices {ranges(unit.slices)}")
        lines.append(f'  {unit.name}) exec {" ".join(unit.numactl)} "$@" ;;')
    names = " ".join(unit.name for unit in units)
    lines.append(f'  *) echo "usage: $0 UNIT COMMAND..., UNIT is one of: {names}" >&2; exit 2 ;;')
    return {f"{name}.sh": "\n".join([*lines, "esac", ""])}


def _cgroup(machine: Machine, units: list[Unit], name: str) -> dict[str, str]:
    lines = [
        *("#!/bin/sh", *_about(machine, name)),
        "# Makes a cgroup (version 2) for each unit; needs root.",
        f"# Usage: ./{name}.sh [PARENT], then: echo PID > PARENT/{name}/UNIT/cgroup.procs",
        *("set -eu", "parent=${1:-/sys/fs/cgroup}", f'group="$parent/{name}"'),
        # Elsewhere, as in version 1, the shell would write files that place nothing.
        "controllers=",
        '{ read -r controllers < "$parent/cgroup.controllers"; } 2>/dev/null || :',
        *('case " $controllers " in', '  *" cpuset "*) ;;'),
        '  *) echo "$parent: no cgroup of version 2 with cpuset" >&2; exit 1 ;;',
        *("esac", 'mkdir -p "$group"'),
        'echo +cpuset > "$parent/cgroup.subtree_control"',
        'echo +cpuset > "$group/cgroup.subtree_control"',
    ]
    for unit in units:
        lines.append(f"# slices {ranges(unit.slices)}")
        if unit.memory == "interleave":
            lines.append("# A cgroup does not interleave: start the process with numactl, too.")
        lines += [
            f'mkdir -p "$group/{unit.name}"',
            f'echo {ranges(unit.cpus)} > "$group/{unit.name}/cpuset.cpus"',
            f'echo {ranges(unit.nodes)} > "$group/{unit.name}/cpuset.mems"',
        ]
    return {f"{name}.sh": "\n".join([*lines, ""])}


def _systemd(machine: Machine, units: list[Unit], name: str) -> dict[str, str]:
    texts = {}
    for unit in units:
        file = f"{name}-{unit.name}.conf"
        lines = [
            *_about(machine, name),
            f"# Slices {ranges(unit.slices)}.",
            f"# Copy to /etc/systemd/system/YOUR.service.d/{file}, then: systemctl daemon-reload",
            "[Service]",
            f"AllowedCPUs={ranges(unit.cpus)}",
            f"AllowedMemoryNodes={ranges(unit.nodes)}",
            f"NUMAPolicy={unit.memory}",
        ]
        if unit.memory != "local":
            lines.append(f"NUMAMask={ranges(unit.nodes)}")
        texts[file] = "\n".join([*lines, ""])
    return texts


def _kubernetes(machine: Machine, units: list[Unit], name: str) -> dict[str, str]:
    """Pods that place themselves.

    Kubernetes gives whole CPUs of its own choice to a pod, and names no node. So numactl chooses
    inside of the pod, which must not have CPUs of its own: it requests some, without a limit.
    """
    on_this_node = {"nodeSelector": {"kubernetes.io/hostname": platform.node()}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{unit.name}",
                "labels": {"app.kubernetes.io/name": name},
                "annotations": {
                    "pmoss/slices": ranges(unit.slices),
                    "pmoss/cpus": ranges(unit.cpus),
                    "pmoss/memory-nodes": ranges(unit.nodes),
                },
            },
            "spec": {
                **(on_this_node if machine.name == "host" else {}),
                "containers": [
                    {
                        "name": "index",
                        "image": "YOUR-IMAGE-WITH-NUMACTL",
                        "command": [*unit.numactl, "YOUR-COMMAND"],
                        "resources": {"requests": {"cpu": str(len(unit.cpus))}},
                        "securityContext": {"capabilities": {"add": ["SYS_NICE"]}},
                    }
                ],
            },
        }
        for unit in units
    ]
    manifest = {"apiVersion": "v1", "kind": "List", "items": pods}
    return {f"{name}.json": json.dumps(manifest, indent=2) + "\n"}


#: What writes the files of each mechanism: text by name, of a machine, units, and a name.
MECHANISMS: Mapping[str, Callable[[Machine, list[Unit], str], dict[str, str]]] = MappingProxyType(
    {"numactl": _numactl, "cgroup": _cgroup, "systemd": _systemd, "kubernetes": _kubernetes}
)
