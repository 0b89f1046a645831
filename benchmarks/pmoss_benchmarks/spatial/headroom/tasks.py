"""Copies measured headroom into the committed tasks: ``python -m`` with this module's name.

Datasets carry the headroom of their task, and the package that holds the tasks does not hold the
benchmark's results; so the tasks hold a copy, and a test that both agree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmoss_datasets.suite import load_task, task_file, task_names
from pmoss_env.files import write_atomically

RESULTS = Path(__file__).parents[3] / "results"
#: What a task keeps of a row of the report.
KEPT = (
    "random",
    "simple",
    "best_simple",
    "search",
    "headroom",
    "headroom_over_rules",
    "simulated_headroom",
    "has_headroom",
)
_HEADING = (
    "\n# Of benchmarks/results: python -m pmoss_benchmarks.spatial.headroom.tasks\n[headroom]\n"
)


def measured(env: Mapping[str, Any], reports: list[Mapping[str, Any]]) -> dict[str, Any]:
    """What the reports say of a task, rounded to six digits; empty if it is in none."""
    for report in reports:
        for row in report["cells"]:
            keys = ("machine", "index", "workload")
            same = all(row[key] == env[key] for key in keys)
            usual = {"load": "closed", "interference": "none"}
            if same and all(row[key] == env.get(key, usual[key]) for key in usual):
                return {
                    key: float(f"{row[key]:.6g}") if isinstance(row[key], float) else row[key]
                    for key in KEPT
                }
    return {}


def read_reports() -> list[Mapping[str, Any]]:
    """The committed headroom reports."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("headroom*.json"))]


def main() -> None:
    """Rewrites the ``[headroom]`` table of every committed task."""
    reports = read_reports()
    for name in task_names():
        path = task_file(name)
        text = path.read_text().partition(_HEADING)[0]
        if found := measured(load_task(name).env, reports):
            lines = [f"{key} = {json.dumps(value)}" for key, value in found.items()]
            text += _HEADING + "\n".join(lines) + "\n"
        else:
            print(f"{name}: in no report", file=sys.stderr)
        write_atomically(path, text)


if __name__ == "__main__":
    main()
