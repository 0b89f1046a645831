"""Measures several schedules on any backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_env import __version__
from pmoss_env.backends.base import Backend
from pmoss_env.backends.frames import pack_snapshot, unpack_snapshot
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.result_files import ResultFile
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
        backend: with its workload instance.
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


def measure_rounds(
    backend: Backend,
    names: Sequence[str],
    *,
    rounds: int,
    seed: int,
    out: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    on_snapshot: Callable[[int, str, HardwareSnapshot], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, HardwareSnapshot]]:
    """Measures baselines in several rounds, so that changes of the host affect all of them.

    Args:
        backend: with its workload instance.
        names: baselines, see pmoss_env.baselines.
        rounds: number of measurements of each.
        seed: of the baselines and the measurements; each round has its own.
        out: file of rows, one per snapshot; complete rounds of the file are not measured again.
        settings: further settings that must be the same to continue ``out``.
        on_snapshot: called with (round, name, snapshot), also for snapshots of the file.
        progress: of a round; called with (measured so far, to measure).

    Returns:
        The snapshots of each round, in the order of ``names``.

    Raises:
        DatasetError: ``out`` holds results of other settings.
    """
    header = {
        "kind": "measure",
        "version": __version__,
        "schedules": list(names),
        "seed": seed,
        **(settings or {}),
    }
    result = []
    with ResultFile(out, header, key=("round", "schedule")) as file:
        for number in range(rounds):
            rows = [file.get(number, name) for name in names]
            if all(rows):
                snapshots = {
                    row["schedule"]: unpack_snapshot(row["snapshot"]) for row in rows if row
                }
            else:
                snapshots = measure_schedules(
                    backend, names, seed=seed + 1000 * number, progress=progress
                )
                for name, snapshot in snapshots.items():
                    if file.get(number, name) is None:
                        plain = pack_snapshot(snapshot)
                        file.append({"round": number, "schedule": name, "snapshot": plain})
            for name, snapshot in snapshots.items():
                if on_snapshot:
                    on_snapshot(number, name, snapshot)
            result.append(snapshots)
    return result
