"""Blocks on how methods are tuned, and what their inputs are worth."""

from __future__ import annotations

import json
from typing import Any

from pmoss_agents.configs import read_ranges
from pmoss_benchmarks.texts.stored import Stored, counted, made, table
from pmoss_datasets.suite import load_task, splits
from pmoss_env.errors import DatasetError


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


def ablation(stored: Stored) -> str:
    """The surrogate without single groups of inputs."""
    path = stored.folder / "ablation.jsonl"
    try:
        header, *rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from error
    # The seeds of a group together, and what lacks nothing first.
    scores: dict[str, list[float]] = {}
    for row in rows:
        scores.setdefault(row["without"], []).append(row["score"])
    mean = {group: sum(of) / len(of) for group, of in scores.items()}
    shown = [
        [group or "nothing", f"{value:.1f}", f"{mean[''] - value:+.1f}"]
        for group, value in mean.items()
    ]
    config: dict[str, Any] = header["config"]
    told = (
        f"`{header['task']}`, {header['data']} episodes of data, "
        f"{counted(header['episodes'], 'episode')} of evaluation, "
        f"{counted(len(scores['']), 'training')}. "
        f"{counted(config['members'], 'member')} of {config['updates']} updates."
    )
    return "\n\n".join(
        [
            told,
            table(["left out", "score", "lost by it"], shown),
            made(header, "benchmarks/results/ablation.jsonl"),
        ]
    )


BLOCKS = {
    "task-splits": task_splits,
    "method-ranges": method_ranges,
    "ablation": ablation,
}
