"""The block about the schedules that P-MOSS published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_benchmarks.spatial.published import EXCHANGES, OPPONENTS, WORKLOADS
from pmoss_benchmarks.texts.stored import Stored, counted, made, percent, table
from pmoss_env.types import Float64Array

Rows = Mapping[str, Mapping[str, Any]]


def published(stored: Stored) -> str:
    """Each published schedule beside Random, Grouped, LPT and search."""
    report = stored["published.json"]
    settings, rows, aware = report["settings"], [], []
    for cell in report["cells"]:
        of, workload = cell["rows"], WORKLOADS[cell["workload"]]
        for name in (name for name in of if "agreement" in of[name]):
            written = of.get(f"{name}-as-written")
            rows.append(
                (
                    f"{cell['machine']}, `{workload}`",
                    name.removeprefix("published-"),
                    f"{of[name]['cores']} / {of[name]['most']}",
                    percent(of[name]["agreement"]),
                    _ratio(of, name),
                    _ratio(of, f"{name}-as-written") if written else "the same",
                    *(_ratio(of, other) for other in OPPONENTS[1:]),
                )
            )
        for name, test in cell["awareness"].items():
            aware.append(
                f"On {cell['machine']} the snapshots of `{workload}` tell the load of each slice. "
                f"The busiest core of schedule {name.removeprefix('published-')} has "
                f"{test['busiest']:.2f} times the mean load. With its slices exchanged at random "
                f"it has {test['exchanged']:.2f} times, and {percent(test['as_good'])} of "
                f"{EXCHANGES:,} exchanges are as good."
            )
    columns = ["server, workload", "id", "cores / most slices", "nodes agree", "published"]
    return "\n".join(
        [
            table([*columns, "as written", *(f"`{name}`" for name in OPPONENTS[1:])], rows),
            "",
            "Throughput under a closed load, as a multiple of Random's on the same instance. "
            f"Means over {counted(settings['instances'], 'workload instance')}, with 95 % "
            "intervals. "
            f"Search has {settings['budget']:,} evaluations.",
            "Published: the data lie on the node of their core, as the paper has it. As written: "
            "they lie where the file says.",
            *aware,
            made(report, "benchmarks/results/published.json"),
        ]
    )


def _ratio(rows: Rows, name: str) -> str:
    """Paired by instance, with a 95 % interval."""
    own: Float64Array = np.array(rows[name]["closed"]) / np.array(rows["random"]["closed"])
    half = 1.96 * own.std(ddof=1) / np.sqrt(own.size)
    return f"{own.mean():.2f} [{own.mean() - half:.2f}, {own.mean() + half:.2f}]"


BLOCKS = {"published": published}
