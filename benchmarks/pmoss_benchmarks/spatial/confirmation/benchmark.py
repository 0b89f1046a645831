"""Measuring rows of the offline benchmark again, keeping what came out, and checking that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pmoss_benchmarks.cells import finish_cells
from pmoss_benchmarks.report import write_report
from pmoss_benchmarks.spatial.confirmation.rows import PlayedEpisode, PlayedRow, PlayedTask
from pmoss_benchmarks.spatial.confirmation.summary import summarise
from pmoss_benchmarks.spatial.confirmation.work import (
    ConfirmationOptions,
    ConfirmationWork,
    cells_of,
)
from pmoss_env.errors import DatasetError, DescriptionError, PmossError
from pmoss_env.files import read_json
from pmoss_env.provenance import provenance

Progress = Callable[[int, int], None]
#: What a report says it is.
FORMAT = "pmoss-confirmation"
_MODULES = ["pmoss_benchmarks.spatial.confirmation"]


def run_confirmation(
    tasks: Mapping[str, PlayedTask],
    options: ConfirmationOptions,
    *,
    out: Path | None = None,
    processes: int = 1,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Measures all rows of some tasks on the simulated server.

    Args:
        tasks: of read_tasks().
        options: of the measurements.
        out: JSON file to write. Finished episodes are kept beside it: the same call goes on after
            an interruption, and so does one with more or fewer episodes or tasks.
        processes: worker processes.
        progress: called with (episodes done, episodes in all).

    Returns:
        The report: ``tasks``, by name with ``summary`` (see summarise()) and ``episodes``, by
        number the environment's seed and by policy ``model``, ``simulated``, perhaps ``finer``,
        Mq/s, and ``actions``.

    Raises:
        DatasetError: the model gives another throughput than a row holds, or what is kept beside
            ``out`` is of other options.
        UnsupportedError: an environment that the simulated server cannot be like.
    """
    settings, cells = asdict(options), cells_of(tasks)
    kept = None if out is None else out.with_suffix(".partial")
    results = finish_cells(
        partial(ConfirmationWork, tasks, options),
        cells,
        settings=settings,
        kept=kept,
        processes=processes,
        progress=progress,
    )
    content: dict[str, Any] = {
        "format": FORMAT,
        "settings": settings,
        "tasks": {
            name: _of_task(task, {c.episode: results[c.name] for c in cells if c.task == name})
            for name, task in tasks.items()
        },
    }
    if out is not None and kept is not None:
        write_report(out, _MODULES, **content)
        kept.unlink(missing_ok=True)
    return {**provenance(_MODULES), **content}


def _of_task(task: PlayedTask, found: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    measured = {
        number: {
            name: {"model": row.model, **found[number][name]} for name, row in episode.rows.items()
        }
        for number, episode in task.episodes.items()
    }
    return {
        "env_id": task.env_id,
        "env": dict(task.env),
        "rules": list(task.rules),
        "summary": summarise(measured, task.rules),
        "episodes": {
            str(number): {
                "env_seed": episode.env_seed,
                "rows": {
                    name: {**measured[number][name], "actions": row.actions}
                    for name, row in episode.rows.items()
                },
            }
            for number, episode in task.episodes.items()
        },
    }


def recheck(path: Path, episodes: int = 1, progress: Progress | None = None) -> list[str]:
    """Measures some episodes of a report again, by both fidelities, and compares every bit.

    The figures of the summaries are computed again from what was measured.

    Args:
        path: of the report.
        episodes: how many, of all tasks together, evenly spread.
        progress: called with (episodes done, episodes in all).

    Returns:
        One line for each value that came out different.

    Raises:
        DatasetError: the file is no such report, or damaged.
        DescriptionError: no episode is asked for.
    """
    if episodes < 1:
        raise DescriptionError(f"episodes = {episodes}: must be at least 1")
    try:
        report = read_json(path)
        if report["format"] != FORMAT:
            raise ValueError(f"format = {report['format']!r}: must be {FORMAT!r}")
        settings = {name: report["settings"][name] for name in asdict(ConfirmationOptions())}
        tasks = {name: _task(name, told) for name, told in report["tasks"].items()}
        wrong = [
            f"{name}: summary: is not that of the rows"
            for name, told in report["tasks"].items()
            if _summary(told) != told["summary"]
        ]
        cells = cells_of(tasks)
        count = min(episodes, len(cells))
        # From the middle of each part: the first episodes are measured twice, which takes longer.
        chosen = [cells[(2 * i + 1) * len(cells) // (2 * count)] for i in range(count)]
        work = ConfirmationWork(tasks, ConfirmationOptions(**settings))
        try:
            for number, cell in enumerate(chosen, 1):
                where = f"{cell.task}: episode {cell.episode}"
                rows = report["tasks"][cell.task]["episodes"][str(cell.episode)]["rows"]
                for policy, now in work.measured(cell).items():
                    wrong += [
                        f"{where}: {policy}: {key}: recorded {rows[policy][key]!r}, now {one!r}"
                        for key, one in now.items()
                        if rows[policy][key] != one
                    ]
                if progress is not None:
                    progress(number, count)
        finally:
            work.close()
    except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError) as error:
        if isinstance(error, PmossError):
            raise
        raise DatasetError(
            f"{path}: is no report of `pmoss benchmark confirm`: {error!r}"
        ) from error
    return wrong


def _task(name: str, told: Mapping[str, Any]) -> PlayedTask:
    """The rows of a task as a report holds them."""
    return PlayedTask(
        name,
        str(told["env_id"]),
        dict(told["env"]),
        {
            int(number): PlayedEpisode(
                int(episode["env_seed"]),
                {
                    policy: PlayedRow(float(row["model"]), _actions(row["actions"]))
                    for policy, row in episode["rows"].items()
                },
            )
            for number, episode in told["episodes"].items()
        },
    )


def _actions(told: Any) -> str | tuple[int, ...]:
    return told if isinstance(told, str) else tuple(map(int, told))


def _summary(told: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a task's rows."""
    measured = {
        int(number): {
            policy: {key: float(value) for key, value in row.items() if key != "actions"}
            for policy, row in episode["rows"].items()
        }
        for number, episode in told["episodes"].items()
    }
    return summarise(measured, told["rules"])
