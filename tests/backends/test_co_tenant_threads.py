"""Which CPU a co-tenant gets on a host."""

from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.backends.co_tenant_threads import CoTenantThreads
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.host import _roles
from pmoss_env.types import CoTenant

FOUR_SOCKETS = load_machine("skylake-x-4n")


def threads_of(machine: Machine) -> CoTenantThreads:
    cpus = [
        {
            "id": int(machine.cpu_of_core[core]),
            "llc": int(machine.llc_of_core[core]),
            "siblings": machine.cpu_of_core[
                machine.physical_of_core == machine.physical_of_core[core]
            ].tolist(),
        }
        for core in range(machine.cores)
    ]
    caches = [{"size_bytes": 32 << 20}] * (int(machine.llc_of_core.max()) + 1)
    nodes = np.arange(machine.nodes, dtype=np.int32)
    return CoTenantThreads(machine, {"cpus": cpus, "llcs": caches}, nodes)


def cores_of(machine: Machine, *co_tenants: CoTenant) -> list[int]:
    core_of = {int(cpu): core for core, cpu in enumerate(machine.cpu_of_core)}
    return [core_of[cpu] for _, cpu, *_ in threads_of(machine).native(co_tenants)]


@pytest.mark.parametrize("family", ["memory_stream", "link_stream", "cache_thrash"])
def test_no_router_is_disturbed_while_there_are_other_cores(family: str) -> None:
    # As the host's description has them: routers and sweepers are all cores without a worker.
    machine = replace(
        FOUR_SOCKETS,
        role_of_core=_roles(FOUR_SOCKETS.node_of_core, FOUR_SOCKETS.physical_of_core),
    )
    co_tenants = [CoTenant(family, 1, 0.5) for _ in range(2)]
    chosen = cores_of(machine, *co_tenants)
    assert len(set(chosen)) == 2
    roles = [machine.role_of_core[core] for core in chosen]
    assert roles[0] == "sweeper" and "router" not in roles


def test_co_tenants_that_may_choose_do_not_share_a_cpu() -> None:
    sockets = FOUR_SOCKETS.sockets
    co_tenants = [CoTenant("link_stream", target, 0.5) for target in range(1, sockets)]
    co_tenants += [CoTenant("memory_stream", 0, 0.5), CoTenant("cache_thrash", 0, 0.3)]
    chosen = cores_of(FOUR_SOCKETS, *co_tenants)
    assert len(set(chosen)) == len(co_tenants)
    threads = threads_of(FOUR_SOCKETS)
    [first] = threads.native(co_tenants[:1])
    [second] = threads.native(co_tenants[:1], taken=[first[1]])
    assert first[1] != second[1]


def test_a_busy_core_is_the_one_that_was_named() -> None:
    worker = int(FOUR_SOCKETS.workers[3])
    assert cores_of(FOUR_SOCKETS, CoTenant("busy_core", worker, 0.5)) == [worker]
    with pytest.raises(UnsupportedError, match="no SMT sibling"):
        cores_of(FOUR_SOCKETS, CoTenant("busy_sibling", worker, 0.5))
