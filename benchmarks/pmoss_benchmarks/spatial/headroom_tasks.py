"""Copies measured headroom into the committed tasks: ``python -m`` with this module's name.

Datasets carry the headroom of their task, and the package that holds the tasks does not hold the
benchmark's results; so the tasks hold a copy, and a test that both agree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pmoss_benchmarks.study import Results
from pmoss_datasets.suite import load_task, task_file, task_names
from pmoss_env.files import write_atomically

ROOT = Path(__file__).parents[3]
#: The study and its variants: a task is in one of them.
STUDIES = ("headroom", "headroom/machines", "headroom/rtree")
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
    "\n# Of benchmarks/results: python -m pmoss_benchmarks.spatial.headroom_tasks\n[headroom]\n"
)


def measured(env: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the rows say of a task, rounded to six digits; empty if it is in none."""
    usual = {"load": "closed", "interference": "none"}
    for row in rows:
        same = all(row[key] == env[key] for key in ("machine", "index", "workload"))
        if same and all(row[key] == env.get(key, usual[key]) for key in usual):
            return {
                key: float(f"{row[key]:.6g}") if isinstance(row[key], float) else row[key]
                for key in KEPT
            }
    return {}


def read_headroom() -> list[Mapping[str, Any]]:
    """The committed rows."""
    results = Results(ROOT)
    return [row for study in STUDIES for row in results[study].rows]


def main() -> None:
    """Rewrites the ``[headroom]`` table of every committed task."""
    rows = read_headroom()
    for name in task_names():
        path = task_file(name)
        text = path.read_text().partition(_HEADING)[0]
        if values := measured(load_task(name).env, rows):
            lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
            text += _HEADING + "\n".join(lines) + "\n"
        else:
            print(f"{name}: in no row", file=sys.stderr)
        write_atomically(path, text)


if __name__ == "__main__":
    main()
