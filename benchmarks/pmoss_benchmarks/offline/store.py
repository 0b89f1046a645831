"""The files of finished cells: rows to replay, by track and task, and facts of each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pmoss_benchmarks.offline.opponents import OPPONENTS, split_cell
from pmoss_benchmarks.offline.plan import EVALUATION_SEED, OfflineCell, Plan, digest
from pmoss_benchmarks.offline.tracks import has_references, load_track
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import (
    EpisodeResult,
    Evaluation,
    read_results,
    write_results,
)
from pmoss_datasets.suite import load_task
from pmoss_env.errors import DatasetError
from pmoss_env.files import read_json
from pmoss_env.provenance import describe_machine
from pmoss_env.version import CONTINUED, __version__

#: Cells that are done, until all are.
PARTIAL = "cells.partial"
SUMMARY = "summary.json"
README = "README.md"
#: How that begins.
HEADING = "# Offline benchmark"


def finished(out: Path, plan: Plan) -> dict[str, dict[str, Any]]:
    """Results, by the cell's name, that an earlier run with the plan's settings left in ``out``.

    A cell that all opponents shared (version 0.1.0) becomes one cell for each of them.

    Raises:
        DatasetError: they are of other settings or of another version, or the folder holds
            something else.
    """
    path = out / SUMMARY
    if not path.exists():
        readme = out / README
        if readme.exists() and not readme.read_text(errors="replace").startswith(HEADING):
            raise DatasetError(f"{readme}: is not of this benchmark: choose another folder")
        return {}
    try:
        summary = read_json(path)
        version, settings = summary["version"], summary["settings"]
        cpu_model = summary["machine"]["cpu_model"]
        summary["cells"].items()
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{path}: is no summary of this benchmark: choose another folder, or remove it"
        ) from error
    if version not in CONTINUED or settings != plan.settings:
        raise DatasetError(
            f"{path}: holds results of another plan or version: choose another folder, or remove it"
        )
    # A summary is by its last call; a cell of an older version or another host says so.
    made = {} if version == __version__ else {"version": version}
    if cpu_model != describe_machine()["cpu_model"]:
        made["cpu_model"] = cpu_model
    rows = {
        (track, task): read_results(rows_path(out, track, task))[1]
        for track, task in dict.fromkeys((c["track"], c["task"]) for c in summary["cells"].values())
    }
    results = {
        name: {
            **made,
            **{key: value for key, value in cell.items() if key not in _CELL},
            "rows": [
                asdict(row)
                for row in rows[cell["track"], cell["task"]]
                if row.policy in cell["policies"] and row.seed == EVALUATION_SEED + cell["seed"]
            ],
        }
        for name, cell in summary["cells"].items()
    }
    found: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        cell = summary["cells"][name]
        if cell["agent"] != OPPONENTS:
            found[name] = result
            continue
        track, task, seed = cell["track"], cell["task"], cell["seed"]
        for opponent, own in split_cell(result).items():
            code = digest(plan, track, opponent, task)
            found[OfflineCell(track, task, opponent, seed, code).name] = own
    return found


#: What facts_of() adds to a result that it takes the rows from.
_CELL = ("track", "task", "agent", "seed", "policies")


def facts_of(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without its rows, and which rows they are."""
    track, task, agent, seed, _ = name.split("/")
    return {
        "track": track,
        "task": task,
        "agent": agent,
        "seed": int(seed),
        "policies": list(dict.fromkeys(row["policy"] for row in result["rows"])),
        **{key: value for key, value in result.items() if key != "rows"},
    }


def rows_path(out: Path, track: str, task: str) -> Path:
    """The result file of a track and task: ``pmoss study replay`` replays it."""
    return out / track / f"{task}.jsonl"


def write_rows(
    out: Path, settings: Mapping[str, Any], rows: Mapping[tuple[str, str], list[EpisodeResult]]
) -> None:
    """Writes one result file per track and task."""
    for (track, task), of_task in rows.items():
        known = load_task(task)
        env = load_track(track).evaluation_env(known)
        assert env is not None
        evaluation = Evaluation(
            find_domain(known.domain).env_id,
            env,
            settings["search_budget"],
            settings["random_schedules"],
            of_task,
        )
        common = {"common_seed": EVALUATION_SEED} if settings.get("common") else {}
        if settings.get("long_search") and has_references(track, task):
            common["long_search"] = settings["long_search"]
        path = rows_path(out, track, task)
        write_results(path, evaluation, compact=bool(common), **common)
