"""The parts of a migration: the core, its threads, and the target."""

from __future__ import annotations

import numpy as np

from pmoss_env.envs.threads.inputs import LOCAL_SLOW, REMOTE_SLOW
from pmoss_env.envs.threads.server import Sample
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, Int32Array

#: Least P_ub of an unbalanced core (Smart Scheduler, section 5).
THRESHOLD = 0.8


def unbalance(inputs: Float64Array) -> Float64Array:
    """(C,) float64, P_ub of equation 4: remote / all accesses to slow memory; 0 without any."""
    remote, local = inputs[:, REMOTE_SLOW], inputs[:, LOCAL_SLOW]
    total = remote + local
    return np.divide(remote, total, out=np.zeros_like(total), where=total > 0)


def unbalanced_cores(sample: Sample, threshold: float = THRESHOLD) -> Int32Array:
    """The cores with a thread whose P_ub reaches the threshold, ascending (algorithm 1)."""
    share = unbalance(sample.inputs)
    with_threads = np.bincount(sample.cpus, minlength=share.size) > 0
    return np.flatnonzero(with_threads & (share >= threshold)).astype(np.int32)


def threads_to_move(sample: Sample, core: int, count: int) -> Int32Array:
    """Positions of the ``count`` threads of a core with the most page faults.

    Ordered by major faults, then minor faults, then the lower id (Smart Scheduler, section 7.1).
    """
    positions = np.flatnonzero(sample.cpus == core)
    minor, major = sample.minor_faults[positions], sample.major_faults[positions]
    order = np.lexsort((positions, -minor, -major))
    return positions[order][:count].astype(np.int32)


def least_used_core(machine: Machine, cores: Int32Array, load: Float64Array) -> int:
    """The core with the least load; ties are broken by the sibling's load, then by number.

    Args:
        load: (C,) threads or utilisation of every core.
    """
    physical = np.bincount(machine.physical_of_core, load)
    order = np.lexsort((cores, physical[machine.physical_of_core[cores]], load[cores]))
    return int(cores[order[0]])
