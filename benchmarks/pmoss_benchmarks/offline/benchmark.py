"""Running the offline benchmark and writing what it found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pmoss_benchmarks.cells import finish_cells
from pmoss_benchmarks.functions.references import reference_rows
from pmoss_benchmarks.offline.opponents import is_opponent
from pmoss_benchmarks.offline.plan import (
    OfflineCell,
    Plan,
    cells_of,
    is_current,
    needs_data,
    recipe_of,
    usable_agents,
)
from pmoss_benchmarks.offline.report import write_report
from pmoss_benchmarks.offline.store import PARTIAL, finished
from pmoss_benchmarks.offline.tracks import has_references, load_track
from pmoss_benchmarks.offline.work import OfflineWork
from pmoss_datasets.suite import load_task, obtain
from pmoss_env.extras import require

#: progress(stage, done, total).
Progress = Callable[[str, int, int], None]


def run_offline(
    plan: Plan,
    out: Path,
    data: Path,
    *,
    agents: Sequence[str] | None = None,
    references: Path | None = None,
    executor: str = "processes",
    processes: int = 1,
    address: str | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Does what is missing of a plan and writes the report of all that ``out`` then holds.

    A run that is stopped or killed loses the cells that were running; the same call goes on, and
    a call with more agents, tasks, tracks or seeds adds to what is there.

    Args:
        plan: what to do.
        out: folder of the results. Trained agents are kept in ``out/agents``.
        data: folder that datasets are kept in.
        agents: names, or None for all that can be used here.
        references: folder of results with the study references; missing rows are kept in ``out``.
            None: ``out``.
        executor: see ``pmoss_datasets.executors.run_tasks``.
        processes: likewise.
        address: likewise.
        progress: called often.

    Returns:
        The summary that is written to ``out/summary.json``.

    Raises:
        DatasetError: ``out`` holds results of another plan or version, or ``data`` other datasets.
        UnknownNameError: an agent that does not exist.
        MissingExtraError: an agent that was asked for needs a package.
    """
    usable, left_out = usable_agents(plan, agents)
    cells = cells_of(plan, usable)
    if any(not is_opponent(cell.agent, cell.task) for cell in cells):
        require("h5py", "matplotlib")
    known = finished(out, plan)
    missing = [cell for cell in cells if cell.name not in known and needs_data(cell)]
    how: dict[str, Any] = {"executor": executor, "processes": processes, "address": address}
    datasets = _datasets(plan, missing, data, progress, how)
    known_scores = _references(plan, references or out, out, progress)
    results = finish_cells(
        partial(OfflineWork, plan, datasets, out / "agents", known_scores),
        cells,
        settings=plan.settings,
        kept=out / PARTIAL,
        known=known,
        progress=lambda done, total: progress("cells", done, total),
        **how,
    )
    results = {name: result for name, result in results.items() if is_current(plan, name, usable)}
    summary = write_report(out, plan, results, left_out)
    (out / PARTIAL).unlink(missing_ok=True)
    return summary


def _references(
    plan: Plan, results: Path, out: Path, progress: Progress
) -> dict[str, dict[int, tuple[float, float]]]:
    """By task, throughputs of score 0 and 100 by the episode's seed; made where they lack."""
    if not plan.long_search:
        return {}
    tasks = [t for t in plan.tasks if any(has_references(track, t) for track in plan.tracks)]
    if not tasks:
        return {}
    rows = reference_rows(
        results, out, tasks, plan.episodes, budget=plan.long_search, progress=progress
    )
    return {t: {row["env_seed"]: (row["random"], row["best"]) for row in rows[t]} for t in tasks}


def _datasets(
    plan: Plan,
    cells: Sequence[OfflineCell],
    data: Path,
    progress: Progress,
    how: dict[str, Any],
) -> dict[tuple[str, str], Path]:
    """The folder of each track's and task's data, collected where it is not there."""
    paths: dict[tuple[str, str], Path] = {}
    for key in dict.fromkeys((cell.track, cell.task) for cell in cells):
        track, task = key
        recipe = recipe_of(plan, track, task)
        # Where the data are those of the standard suite they lie where its users expect them.
        known = load_track(track)
        root = data / "tracks" / known.of_agents if known.training else data
        paths[key] = obtain(
            recipe,
            root / recipe.id,
            lambda done, total, task=task: progress(f"data {task}", done, total),  # type: ignore[misc]
            headroom=load_task(task).headroom,
            **how,
        ).path
    return paths
