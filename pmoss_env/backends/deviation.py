"""Machines that deviate from their description: random latencies, bandwidths and core speeds.

A planner in the described model is then no oracle: only counters show the true machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.checks import check_number
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant

#: Largest deviation.
MAX_DEVIATION = 0.5
#: Second word of the seed of an instance's true machine; the first one is the workload's.
_STREAM = 0x74727565
_BANDWIDTHS = ("dram_gb_per_s", "dram_write_gb_per_s", "link_gb_per_s")


def check_deviation(value: Any) -> float:
    """Returns a deviation; DescriptionError unless it is a number from 0 to MAX_DEVIATION."""
    check_number("deviation", value, 0.0, MAX_DEVIATION)
    return float(value)


def machine_rng(workload_seed: int) -> np.random.Generator:
    """The source of randomness of a workload instance's true machine."""
    return np.random.default_rng([workload_seed, _STREAM])


def true_machine(
    machine: Machine, deviation: float, rng: np.random.Generator, overhead_cycles: float = 0.0
) -> tuple[_native.MachineModel, tuple[CoTenant, ...]]:
    """The true machine of a description, and the lost time of its cores as co-tenants.

    Latencies between nodes and bandwidths of nodes and links are multiplied by independent factors
    from 1 - deviation to 1 + deviation. Every worker core loses up to half of the deviation of its
    time, as to interrupts and heat.

    Args:
        deviation: 0 to MAX_DEVIATION.
        overhead_cycles: cycles of a worker per query, in addition to the index's own code.
    """
    native = native_machine(machine, overhead_cycles)
    if deviation == 0:
        return native, ()

    def factors(shape: tuple[int, ...]) -> np.ndarray:
        return rng.uniform(1.0 - deviation, 1.0 + deviation, shape)

    nodes = (machine.nodes, machine.nodes)
    # Latencies are symmetric.
    upper = np.triu(factors(nodes))
    symmetric = upper + np.triu(upper, 1).T
    native.dram_ns = (np.asarray(native.dram_ns).reshape(nodes) * symmetric).ravel().tolist()
    for name in _BANDWIDTHS:
        values = np.asarray(getattr(native, name))
        setattr(native, name, (values * factors(values.shape)).tolist())
    native.complete()
    lost = rng.uniform(0.0, 0.5 * deviation, machine.workers.size)
    return native, tuple(
        CoTenant("busy_core", int(core), float(share))
        for core, share in zip(machine.workers, lost, strict=True)
    )
