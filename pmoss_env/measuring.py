"""Measuring several schedules one after the other on any backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pmoss_env.backends.base import Backend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.types import HardwareSnapshot


def measure_schedules(
    backend: Backend,
    names: Sequence[str],
    *,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, HardwareSnapshot]:
    """Measures baselines by name; those that read counters read Grouped's snapshot.

    Args:
        backend: set to its workload instance.
        names: baselines, see pmoss_env.baselines.
        seed: of the baselines and the measurements.
        progress: called with (measured so far, to measure).

    Returns:
        The snapshots in the order of ``names``.
    """
    machine, slices = backend.machine, backend.slices
    chosen = [(name, make_baseline(name, shared=True)) for name in names]
    total = len(chosen) + 1
    first = make_baseline("grouped")(Context(machine, slices))
    incumbent = backend.measure(first, seed=seed)
    snapshots = {}
    for done, (name, baseline) in enumerate(chosen, start=1):
        if progress:
            progress(done, total)
        rng = np.random.default_rng([seed, done])
        schedule = baseline(Context(machine, slices, first, incumbent, rng, backend))
        snapshots[name] = backend.measure(schedule, seed=seed + done)
    if progress:
        progress(total, total)
    return snapshots
