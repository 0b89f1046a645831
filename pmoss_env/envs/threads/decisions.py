"""What a migration is made of: which core, which threads, and where to."""

from __future__ import annotations

import numpy as np

from pmoss_env.envs.threads.inputs import LOCAL_SLOW, REMOTE_SLOW
from pmoss_env.envs.threads.server import Sample
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, Int32Array

#: P_ub from which a core is unbalanced (Smart Scheduler, section 5).
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
    """Positions of the ``count`` threads of a core that fault most.

    Major faults decide, then minor faults, then the lower id (Smart Scheduler, section 7.1).
    """
    mine = np.flatnonzero(sample.cpus == core)
    order = np.lexsort((mine, -sample.minor_faults[mine], -sample.major_faults[mine]))
    return mine[order][:count].astype(np.int32)


def least_used_core(machine: Machine, cores: Int32Array, load: Float64Array) -> int:
    """The core with the least load; of equal ones that with the idlest sibling, then the lowest.

    Args:
        machine: tells which hardware threads share a core.
        cores: to choose from.
        load: (C,) threads or utilisation of every core.
    """
    physical = np.bincount(machine.physical_of_core, load)
    order = np.lexsort((cores, physical[machine.physical_of_core[cores]], load[cores]))
    return int(cores[order[0]])
