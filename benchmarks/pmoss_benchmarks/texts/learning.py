"""Blocks on the splits of tasks and the ranges of methods."""

from __future__ import annotations

from pmoss_agents.configs import read_ranges
from pmoss_benchmarks.texts.stored import Stored, table
from pmoss_datasets.suite import load_task, splits


def task_splits(stored: Stored) -> str:
    """The tasks of each split."""
    rows = []
    for split, tasks in splits().items():
        for task in tasks:
            env = load_task(task).env
            family = env.get("interference", "none")
            rows.append([split, f"`{task}`", env["machine"], env["workload"], family])
    return table(["split", "task", "machine", "workload", "co-tenants"], rows)


def method_ranges(stored: Stored) -> str:
    """The range of each method's settings, and how the committed ones were found."""
    rows = [
        [
            name,
            "; ".join(
                f"{field} {', '.join(f'{value:g}' for value in values)}"
                for field, values in one.values.items()
            ),
            one.tuning,
        ]
        for name, one in read_ranges().items()
    ]
    return table(["method", "range", "how the committed settings were found"], rows)


BLOCKS = {
    "task-splits": task_splits,
    "method-ranges": method_ranges,
}
