"""Threads on this host that act like the co-tenants of an instance: their CPUs and their memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import BoolArray, CoTenant, Int32Array

#: The native co-tenant of each family of co-tenants.
_CO_TENANTS = {
    "busy_core": "spin",
    "busy_sibling": "spin",
    "cache_thrash": "cache_thrash",
    "memory_stream": "memory_stream",
    "link_stream": "memory_stream",
}
#: Families of co-tenants that this host can run.
FAMILIES: tuple[str, ...] = tuple(_CO_TENANTS)
#: Ranks of what the index loses to a co-tenant on the CPU of a role, or on a sibling of that CPU. A
#: sweeper sleeps most of the time, and all queries of a node pass its router.
_LOST_ON = {"other": 0, "sweeper": 1, "worker": 4, "router": 5}
_LOST_BESIDE = {"other": 0, "sweeper": 0, "router": 2, "worker": 3}
#: Bytes of a stream: more than any last-level cache.
_STREAM_BYTES = 512 << 20


class CoTenantThreads:
    """Gives each co-tenant a CPU, and memory on a node.

    Args:
        machine: this host.
        topology: of this host, as ``_native.host_topology()`` gives it.
        kernel_node: (N,) int32, the kernel's number of each of the machine's nodes.
    """

    def __init__(
        self, machine: Machine, topology: Mapping[str, Any], kernel_node: Int32Array
    ) -> None:
        self._machine, self._kernel_node = machine, kernel_node
        self._cpus = {cpu["id"]: cpu for cpu in topology["cpus"]}
        self._llcs = topology["llcs"]

    def native(
        self, co_tenants: Iterable[CoTenant], taken: Collection[int] = ()
    ) -> list[tuple[str, int, float, int, int]]:
        """Co-tenants as the native runner takes them; UnsupportedError for an impossible one.

        Args:
            taken: CPUs of co-tenants that run already. The others get CPUs of their own, as long as
                there are any.
        """
        natives: list[tuple[str, int, float, int, int]] = []
        for co_tenant in co_tenants:
            used = {*taken, *(cpu for _, cpu, *_ in natives)}
            natives.append(self._thread(co_tenant, used))
        return natives

    def _thread(
        self, co_tenant: CoTenant, taken: Collection[int]
    ) -> tuple[str, int, float, int, int]:
        """(kind, CPU, strength, bytes, node of its memory) of the thread of a co-tenant."""
        machine = self._machine
        kind = _CO_TENANTS[co_tenant.family]
        memory, node = 0, -1
        if co_tenant.family == "busy_core":
            cpu = int(machine.cpu_of_core[co_tenant.target])
        elif co_tenant.family == "busy_sibling":
            own = int(machine.cpu_of_core[co_tenant.target])
            others = [other for other in self._cpus[own]["siblings"] if other != own]
            if not others:
                raise UnsupportedError(f"CPU {own} of this host has no SMT sibling to keep busy")
            cpu = others[0]
        elif co_tenant.family == "cache_thrash":
            cpu = self._spare_cpu(machine.llc_of_core == co_tenant.target, taken)
            size = int(self._llcs[self._cpus[cpu]["llc"]]["size_bytes"])
            memory = 2 * (size or _STREAM_BYTES // 2)
        elif co_tenant.family == "memory_stream":
            cpu = self._spare_cpu(machine.node_of_core == co_tenant.target, taken)
            memory, node = _STREAM_BYTES, int(self._kernel_node[co_tenant.target])
        else:
            source, target = divmod(co_tenant.target, machine.sockets)
            socket = machine.socket_of_node[machine.node_of_core]
            cpu = self._spare_cpu(socket == source, taken)
            at_target = np.flatnonzero(machine.socket_of_node == target)
            memory, node = _STREAM_BYTES, int(self._kernel_node[at_target[0]])
        return kind, cpu, co_tenant.strength, memory, node

    def _spare_cpu(self, candidates: BoolArray, taken: Collection[int]) -> int:
        """The CPU of these cores where a co-tenant takes least from the index and from others."""
        machine = self._machine
        lost = np.array([_LOST_ON[role] for role in machine.role_of_core])
        beside = np.array([_LOST_BESIDE[role] for role in machine.role_of_core])
        for physical in np.unique(machine.physical_of_core):
            siblings = machine.physical_of_core == physical
            lost[siblings] = np.maximum(lost[siblings], beside[siblings].max())
        lost += 10 * np.isin(machine.cpu_of_core, list(taken))
        cores = np.flatnonzero(candidates)
        best = cores[lost[cores] == lost[cores].min()][-1]
        return int(machine.cpu_of_core[best])
