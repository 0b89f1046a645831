"""Machines, workloads and co-tenants in their C++ forms."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from pmoss_env import _native
from pmoss_env.errors import DescriptionError
from pmoss_env.indexes import holds_points
from pmoss_env.machines import Machine
from pmoss_env.machines.distances import PLAIN
from pmoss_env.types import CoTenant
from pmoss_env.workloads import POINTS, SOSD, Workload
from pmoss_env.workloads.catalog import sorted_keys
from pmoss_env.workloads.description import FRACTIONS, WORD_BYTES
from pmoss_env.workloads.point_file import points_of_file

_BYTES_PER_LINE = 64
_LINES_PER_KIB = 1024 / _BYTES_PER_LINE


def native_machine(machine: Machine, overhead_cycles: float = 0.0) -> _native.MachineModel:
    """The C++ form of a machine.

    Args:
        overhead_cycles: cycles of a worker per query, in addition to the index's own code.

    Raises:
        DescriptionError: a parameter is missing or invalid.
    """
    distances = machine.distances
    value = machine.parameter
    native = _native.MachineModel()
    native.query_overhead_cycles = overhead_cycles
    native.node_of_core = machine.node_of_core.tolist()
    native.llc_of_core = machine.llc_of_core.tolist()
    native.physical_of_core = machine.physical_of_core.tolist()
    native.is_worker = machine.worker_mask.astype(np.uint8).tolist()
    native.socket_of_node = machine.socket_of_node.tolist()
    native.routers = max(1, machine.role_of_core.count("router"))
    for name in PLAIN:
        setattr(native, name, value(name))
    if "smt_share" in machine.parameters:
        native.smt_share = value("smt_share")
    native.l2_lines = value("l2_kib") * _LINES_PER_KIB
    native.l2_ways = int(value("l2_ways"))
    native.llc_lines = value("llc_kib") * _LINES_PER_KIB
    native.llc_ways = int(value("llc_ways"))
    native.llc_inclusive = bool(value("llc_inclusive"))
    native.llc_at_home_cluster = bool(value("llc_at_home_cluster"))
    native.modified_ns = distances.modified_ns.ravel().tolist()
    native.dram_ns = distances.dram_ns.ravel().tolist()
    native.dram_gb_per_s = distances.per_node("dram_gb_per_s").tolist()
    native.dram_write_gb_per_s = distances.per_node("dram_write_gb_per_s").tolist()
    native.dram_curve = _curve(machine, "curve")
    native.link_gb_per_s = distances.link_gb_per_s.ravel().tolist()
    native.next_socket = distances.next_socket.ravel().tolist()
    if machine.mesh is not None:
        to_line, from_core = machine.mesh_ns
        native.mesh_ns = to_line.tolist()
        native.mesh_modified_ns = from_core.ravel().tolist()
    if machine.sockets > 1:
        native.modified_home_reader_ns = value("modified_home_reader_ns")
        native.link_curve = _curve(machine, "link_curve")
    try:
        native.complete()
    except ValueError as error:
        raise DescriptionError(f"machine {machine.name!r}: {error}") from error
    return native


def _curve(machine: Machine, name: str) -> _native.LatencyCurve:
    a, b, c = (machine.parameter(f"{name}_{letter}") for letter in "abc")
    return _native.LatencyCurve(a, b, c)


def native_interference(
    co_tenants: Iterable[CoTenant], native: _native.MachineModel
) -> _native.Interference:
    """The resources that co-tenants take, in the form of both models.

    Several co-tenants on one target each take a share of what the others leave. A cache-thrashing
    co-tenant also takes the memory bandwidth of its stream.

    Args:
        co_tenants: checked by check_co_tenants().
    """
    taken = [(tenant.family, tenant.target, tenant.strength) for tenant in co_tenants]
    return _native.Interference.of(taken, native)


def native_workload(workload: Workload, seed: int = 0) -> _native.WorkloadSpec:
    """The C++ form of a workload instance.

    Raises:
        DescriptionError: an invalid file of keys or points, or more records than it holds.
    """
    of_keys, of_points = (workload.keys.startswith(prefix) for prefix in (SOSD, POINTS))
    path = workload.keys.partition(":")[2]
    try:
        return _native.WorkloadSpec(
            **{name: getattr(workload, name) for name in FRACTIONS},
            distribution=workload.distribution,
            theta=workload.theta,
            zipf_items=workload.zipf_items,
            records=workload.records,
            max_scan_length=workload.max_scan_length,
            seed=seed,
            key_space="file" if of_keys else "points" if of_points else workload.keys,
            keys=sorted_keys(path) if of_keys else None,
            points=points_of_file(path) if of_points else None,
            hot_share=workload.hot_share,
            hot_fraction=workload.hot_fraction,
            drift=workload.drift,
            **({} if workload.value_bytes == WORD_BYTES else {"value_bytes": workload.value_bytes}),
        )
    except (DescriptionError, ValueError) as error:
        raise DescriptionError(f"workload {workload.name!r}: {error}") from error


@lru_cache(maxsize=32)
def record_shares(workload: Workload, slices: int) -> tuple[float, ...]:
    """Share of the records in each slice; 0 for an empty slice.

    For an index on points it is estimated from a sample.
    """
    native = native_workload(workload)
    shares = native.cell_shares if holds_points(workload.index) else native.record_shares
    return tuple(shares(slices))
