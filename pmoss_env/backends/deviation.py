"""Machines that are not quite as described: drawn latencies, bandwidths and speeds of cores.

A planner in the described model is then no oracle: only counters tell how the machine really is.
"""

from __future__ import annotations

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant

#: Beyond this a machine would be another one.
MAX_DEVIATION = 0.5
#: Second word of the seed of an instance's true machine; the first one is the workload's.
_STREAM = 0x74727565
_PER_NODE = ("dram_gb_per_s", "dram_write_gb_per_s")
_PER_LINK = ("link_gb_per_s",)


def check_deviation(value: object) -> float:
    """A deviation as a number.

    Raises:
        DescriptionError: it is none from 0 to MAX_DEVIATION.
    """
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or not 0 <= value <= MAX_DEVIATION:  # type: ignore[operator]
        raise DescriptionError(f"deviation = {value!r}: must be a number from 0 to {MAX_DEVIATION}")
    return float(value)  # type: ignore[arg-type]


def of_instance(workload_seed: int) -> np.random.Generator:
    """What draws the true machine of a workload instance: the same one whenever it is met."""
    return np.random.default_rng([workload_seed, _STREAM])


def true_machine(
    machine: Machine, deviation: float, rng: np.random.Generator, overhead_cycles: float = 0.0
) -> tuple[_native.MachineModel, tuple[CoTenant, ...]]:
    """A machine as it really is, and what its slower cores lose.

    Latencies between nodes and bandwidths of nodes and links get factors of their own, between
    1 - deviation and 1 + deviation. Every worker core loses a share of its time of
    up to half of the deviation, as to interrupts and heat.

    Args:
        machine: as described.
        deviation: 0 for the described machine, at most MAX_DEVIATION.
        rng: the only source of chance.
        overhead_cycles: what a worker takes per query beyond the index's own code.
    """
    native = native_machine(machine, overhead_cycles)
    if deviation == 0:
        return native, ()

    def factors(shape: tuple[int, ...]) -> np.ndarray:
        return rng.uniform(1.0 - deviation, 1.0 + deviation, shape)

    nodes = (machine.nodes, machine.nodes)
    # The way there is as long as the way back.
    there = np.triu(factors(nodes))
    both = there + np.triu(there, 1).T
    native.dram_ns = (np.asarray(native.dram_ns).reshape(nodes) * both).ravel().tolist()
    for name in (*_PER_NODE, *_PER_LINK):
        values = np.asarray(getattr(native, name))
        setattr(native, name, (values * factors(values.shape)).tolist())
    native.complete()
    lost = rng.uniform(0.0, 0.5 * deviation, machine.workers.size)
    return native, tuple(
        CoTenant("busy_core", int(core), float(share))
        for core, share in zip(machine.workers, lost, strict=True)
    )
