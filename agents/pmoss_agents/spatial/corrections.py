"""How far a model's times are off, learned from the schedules that were measured.

The difference of a slice's logarithm of time and the foretold one is split into five parts: of the
machine, the node, the core, the slice, and the pair of slice and core. Each part is drawn towards
0. So a core that was never used shares what is known of its node. This is a Bayesian linear model
with an indicator as each feature; backfitting finds its mean (Hastie and Tibshirani, Generalized
Additive Models, 1986).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmoss_agents.agent import Array

#: Standard deviation of a measured logarithm of time.
NOISE = 0.022
#: Those of the parts before anything is measured: machine, node, core, slice and pair.
SPREADS = (0.2, 0.1, 0.1, 0.03, 0.04)
_ROUNDS = 30


@dataclass(frozen=True)
class Correction:
    """What to add to foretold logarithms of times.

    Attributes:
        shift: (slices, cores) to be added.
        variance: (slices, cores) of what the shift may be off.
        left: (slices, cores) the share of a model's own uncertainty that is left: 1 for a pair that
            was never measured.
    """

    shift: Array
    variance: Array
    left: Array


def corrected(off: Sequence[Array], columns: Sequence[Array], nodes: Array) -> Correction:
    """Learns from measured schedules.

    Args:
        off: for each schedule (slices,) measured less foretold logarithms; NaN: not measured.
        columns: for each schedule (slices,) the core of each slice.
        nodes: (cores,) the node of each core.
    """
    cores, slices = nodes.size, off[0].size
    every = np.concatenate(off)
    known = np.isfinite(every)
    left = every[known]
    core = np.concatenate(columns)[known]
    slice_ = np.tile(np.arange(slices), len(off))[known]
    groups = (
        (np.zeros_like(core), 1),
        (nodes[core], int(nodes.max()) + 1),
        (core, cores),
        (slice_, slices),
        (slice_ * cores + core, slices * cores),
    )
    effects, counts = [], []
    for (group, size), spread in zip(groups, SPREADS, strict=True):
        effects.append(np.zeros(size))
        counts.append(np.bincount(group, minlength=size) + (NOISE / spread) ** 2)
    for _ in range(_ROUNDS):
        for (group, size), effect, count in zip(groups, effects, counts, strict=True):
            left = left + effect[group]
            effect[:] = np.bincount(group, left, size) / count
            left = left - effect[group]
    machine, node, of_core, of_slice, pair = effects
    _, for_node, for_core, for_slice, for_pair = (NOISE**2 / count for count in counts)
    return Correction(
        (machine + node[nodes] + of_core) + of_slice[:, None] + pair.reshape(slices, cores),
        (for_node[nodes] + for_core) + for_slice[:, None] + SPREADS[-1] ** 2,
        for_pair.reshape(slices, cores) / SPREADS[-1] ** 2,
    )
