"""Datasets: their size, how fast episodes become training batches, what collecting adds."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

from pmoss_agents import OfflineAgent, make
from pmoss_benchmarks.report import Figure, seconds_of
from pmoss_datasets import Behaviour, Dataset, Recipe, collect, open_dataset
from pmoss_datasets.formats import SequenceView
from pmoss_datasets.suite import SHIPPED_ROOT
from pmoss_env.backends.simulated import SimulatedBackend
from pmoss_env.types import HardwareSnapshot, Schedule

#: 256 slices on a machine of 96 cores, without counterfactuals.
DATASET = "pmoss/skylake-x-8n-btree-ycsb-a-busy-core/small-v0"
EPISODE_GOAL_KB = 40.0
EXPANSION_GOAL = 20_000.0
#: Of the CPU time of a training update.
SHARE_GOAL_PERCENT = 20.0
COLLECTION_GOAL_PERCENT = 10.0
#: Trajectories per update.
_BATCH = 4


def measure_datasets(rounds: int = 7, **_: Any) -> list[Figure]:
    """Size of an episode, expansion beside a copy and a training update, and collection."""
    dataset = open_dataset(SHIPPED_ROOT / DATASET)
    size = sum(file.stat().st_size for file in dataset.path.iterdir()) / len(dataset) / 1000
    on_disk = Figure.of("an episode of 256 slices on disk", "kB", [size], note=DATASET)
    return [
        on_disk.with_goal(f"<= {EPISODE_GOAL_KB:g} kB", size <= EPISODE_GOAL_KB),
        *_expansion(dataset, rounds),
        _collection(rounds),
    ]


def _expansion(dataset: Dataset, rounds: int) -> list[Figure]:
    """Whole episodes as the Decision Transformer takes them, in CPU time of one thread."""
    view = SequenceView(dataset, "slice")
    rows = list(range(_BATCH))
    batch = view.batch(rows)
    seconds = seconds_of(lambda: view.batch(rows), rounds)
    steps = Figure.of(
        "steps expanded",
        "1/s",
        [_BATCH * dataset.steps / s for s in seconds],
        note=f"batches of {_BATCH} episodes, 1 thread, CPU time",
    )
    arrays = [tensor.numpy() for tensor in batch.values()]
    copies = seconds_of(lambda: [np.array(array) for array in arrays], rounds)
    clocks: list[float] = []
    agent = make("decision-transformer", updates=rounds + 1, batch_size=_BATCH, threads=1)
    assert isinstance(agent, OfflineAgent)
    agent.fit(dataset, progress=lambda done, total, metrics: clocks.append(process_time()))
    updates = [b - a for a, b in pairwise(clocks)]
    share = Figure.of(
        "expansion, share of a training update of the paper's Decision Transformer",
        "%",
        [100 * a / b for a, b in zip(seconds, updates, strict=True)],
    )
    return [
        steps.with_goal(f">= {EXPANSION_GOAL:g} 1/s", steps.median >= EXPANSION_GOAL),
        Figure.of(
            "copying the expanded arrays / expanding them",
            "%",
            [100 * a / b for a, b in zip(copies, seconds, strict=True)],
        ),
        share.with_goal(f"<= {SHARE_GOAL_PERCENT:g} %", share.median <= SHARE_GOAL_PERCENT),
    ]


def _collection(rounds: int) -> Figure:
    """What collecting adds to the backend's own work, episode by episode."""
    recipe = Recipe(
        env={"backend": "simulated", "interference": "busy_core"},
        # The first also imports and allocates.
        episodes=rounds + 1,
        tier="random",
        behaviours=(Behaviour("random"),),
        reference_episodes=0,
    )
    own = 0.0
    measure = SimulatedBackend.measure

    def clocked(backend: SimulatedBackend, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        nonlocal own
        began = process_time()
        try:
            return measure(backend, schedule, seed=seed)
        finally:
            own += process_time() - began

    clocks: list[tuple[float, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(SimulatedBackend, "measure", clocked),
    ):
        collect(
            recipe, Path(folder) / "data", lambda done, total: clocks.append((process_time(), own))
        )
    figure = Figure.of(
        "collecting on the simulated server, beyond the backend's own time",
        "%",
        [
            100 * ((whole - before) / (inside - already) - 1)
            for (before, already), (whole, inside) in pairwise(clocks)
        ],
        note="CPU time of an episode against that of its two measurements within",
    )
    reached = figure.median <= COLLECTION_GOAL_PERCENT
    return figure.with_goal(f"<= {COLLECTION_GOAL_PERCENT:g} %", reached)
