"""The card of a dataset of spatial scheduling."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np

from pmoss_datasets.spatial.schema import SpatialMetadata
from pmoss_datasets.storage import Dataset

#: Fewer schedules measured twice tell no spread.
_REPEATS = 30


def describe(dataset: Dataset) -> dict[str, str]:
    """The parts of a card that only this environment can tell; see Domain.describe."""
    metadata = cast(SpatialMetadata, dataset.metadata)
    machine = dataset.machine
    start = dataset.column("incumbent_throughput")
    return {
        "episodes": f"of {metadata.slices} steps in `pmoss/SpatialScheduling-v0`: each "
        f"step puts one slice of a main-memory index on one of {machine.workers.size} worker "
        f"cores of {machine.name} ({machine.nodes} nodes).",
        "measured": _measurement(metadata) + _repeats(dataset) + _replayed(dataset),
        "outcome": "Final throughput in million queries per second (Mq/s), which is the return of "
        "the reward modes `terminal` and `slice`; that of `improvement` is less by the "
        f"incumbent's, {start.mean():.1f} on average.",
        "limits": _limits(dataset, metadata),
    }


def reference_text(name: str, score: Any) -> str:
    """The meaning of a reference score, in words."""
    return {
        "random": "score 0: random legal schedules",
        "search": f"score 100: local search, {score.get('budget')} evaluations",
        "incumbent": "at the start of the same episodes",
    }[name]


def _measurement(metadata: SpatialMetadata) -> str:
    provenance = metadata.provenance
    backend = str(provenance.get("backend", metadata.env_kwargs.get("backend")))
    how = {
        "analytic": "By the analytic model: no server ran. The same recipe gives the same bits.",
        "simulated": "By execution-driven simulation of the server: the same recipe gives the same "
        "bits.",
        "hardware": "On a real server: it cannot be measured again to the bit.",
    }.get(backend, f"By {backend}.")
    origin = json.dumps(provenance, sort_keys=True)
    units = "Counters in million counts per second per slice, off-core values in GB/s, latencies "
    return f"{how} Provenance: `{origin}`. {units}in microseconds, throughputs in Mq/s."


def _repeats(dataset: Dataset) -> str:
    """The repeatability of a host's measurements, in words; empty where none was repeated."""
    if dataset.metadata.env_kwargs.get("backend") != "hardware":
        return ""
    stays = np.ones(len(dataset), dtype=bool)
    for part in ("cores", "nodes"):
        before, after = (dataset.column(f"{when}_{part}") for when in ("incumbent", "final"))
        stays &= (before == after).all(axis=1)
    first, again = (dataset.column(f"{when}_throughput") for when in ("incumbent", "final"))
    stays &= (first > 0) & (again > 0)
    if stays.sum() < _REPEATS:
        return ""
    ratio = np.log(again[stays] / first[stays])
    spread, error = ratio.std(ddof=1), ratio.std(ddof=1) / np.sqrt(ratio.size)
    low, high = np.exp(ratio.mean() + 1.96 * error * np.array([-1.0, 1.0]))
    return (
        f"\n\nIn {ratio.size} episodes the schedule stayed, so it was measured twice: an A/A test. "
        f"The second measurement is {np.exp(ratio.mean()):.3f} times the first, with a 95 % "
        f"interval of {low:.3f} to {high:.3f}. A single pair differs by "
        f"{100 * (np.exp(spread) - 1):.0f} % (standard deviation)."
    )


def _replayed(dataset: Dataset) -> str:
    """How many schedules are replayed, and how that differs from a mixture; empty without any."""
    behaviours = dataset.metadata.recipe.get("behaviours", ())
    fixed = [number for number, each in enumerate(behaviours) if each.get("fixed")]
    mine = np.isin(dataset.column("policy"), fixed)
    if not mine.any():
        return ""
    schedules = len(np.unique(dataset.column("final_cores")[mine], axis=0))
    return (
        f"\n\nIn {mine.sum()} of {len(dataset)} episodes one of {schedules} fixed schedules is "
        "replayed. They were drawn once, and read no load, as the files that the authors of P-MOSS "
        "trained on. The tier `mixed` differs: it draws each schedule anew, and most of its rules "
        "read the load of a slice. So here a network can learn every schedule by heart; there it "
        "cannot."
    )


def _limits(dataset: Dataset, metadata: SpatialMetadata) -> str:
    limits = [
        "Absolute throughputs depend on the software cost of an operation: compare schedules.",
        "The context of an episode (workload instance, co-tenants) is stored, but no observation "
        "shows it: a policy must read the counters.",
    ]
    if np.isnan(dataset.column("throughput")[:, :-1]).any():
        limits.append("Not every step was measured: there is no `improvement` reward.")
    if misplaced := metadata.provenance.get("slices_not_in_place", {}):
        limits.append(
            f"In {len(misplaced)} of {metadata.episodes} episodes the kernel had not put the data "
            "of all slices where the schedule wanted them: what was measured is of another "
            "placement (`slices_not_in_place`: slices under the incumbent, and at the end)."
        )
    absent = [
        name
        for name, ratio in zip(
            metadata.counter_names, dataset.column("incumbent_running_ratio")[0], strict=True
        )
        if ratio <= 0
    ]
    if absent:
        limits.append(f"Counters that could not be counted: {', '.join(absent)}.")
    return "\n".join(limits)
