"""Running policies at every budget of measurements, and keeping what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pmoss_benchmarks.cells import finish_cells
from pmoss_benchmarks.spatial.budget.work import (
    BUDGETS,
    RULES,
    SEARCHES,
    Agents,
    BudgetCell,
    BudgetWork,
    unpacked,
)
from pmoss_datasets.suite import load_task
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.files import read_json, write_atomically
from pmoss_env.provenance import provenance
from pmoss_env.result_files import read_rows as read_kept

Progress = Callable[[int, int], None]
#: What decides the agent of a name, task and training seed.
Identity = Callable[[str, str, int], str]
#: Rows by the name of their cell.
Rows = dict[str, dict[str, Any]]
FORMAT = "pmoss-budget"
#: Episodes that all policies play before the next ones: a run that ends early compares all of them.
_TOGETHER = 20


def cells_of(
    tasks: Sequence[str],
    agents: Sequence[str],
    seeds: int,
    episodes: int,
    noises: Sequence[float],
) -> list[BudgetCell]:
    """All cells: twenty episodes of every task and policy, then the next twenty."""
    policies = [(name, 0) for name in (*RULES, *SEARCHES)]
    policies += [(name, seed) for name in agents for seed in range(seeds)]
    return [
        BudgetCell(task, policy, seed, noise, episode)
        for first in range(0, episodes, _TOGETHER)
        for task in tasks
        for noise in noises
        for policy, seed in policies
        for episode in range(first, min(first + _TOGETHER, episodes))
    ]


def run_budget(
    out: Path,
    tasks: Sequence[str],
    *,
    episodes: int,
    noises: Sequence[float] = (0.0, 1.0),
    agents: Sequence[str] = (),
    make_agents: Agents | None = None,
    identity: Identity | None = None,
    seeds: int = 1,
    evaluation_seed: int = 101,
    most: int = BUDGETS[-1],
    processes: int = 1,
    progress: Progress = lambda done, total: None,
) -> dict[str, Rows]:
    """Does what a folder lacks, and writes one file of rows per task.

    Args:
        out: folder. The same call goes on after an interruption; one with more episodes or agents
            adds to what is there.
        tasks: of spatial scheduling.
        episodes: of each.
        noises: strengths.
        agents: names that ``make_agents`` knows.
        make_agents: gives the agent of a name, task and training seed.
        identity: kept beside the rows of agents. Those of another agent of the same name are made
            anew or, where they are not asked for, left out. None: nobody asks.
        seeds: of training, of each agent.
        evaluation_seed: of the episodes.
        most: the largest budget that agents get.
        processes: worker processes.
        progress: called with (done, total).

    Returns:
        By task the rows by the name of their cell.

    Raises:
        DatasetError: ``out`` holds something else, or rows of other settings.
        DescriptionError: nothing to do.
    """
    cells = cells_of(tasks, agents, seeds, episodes, noises)
    settings = {"budgets": list(BUDGETS), "evaluation_seed": evaluation_seed}
    known: Rows = {}
    there = {t: read_rows(path, settings) for t in tasks if (path := rows_path(out, t)).exists()}
    told = [*cells, *(cell_of(name) for rows in there.values() for name in rows)]
    own = {
        cell.agent: identity(cell.policy, cell.task, cell.seed)
        for cell in {cell.agent: cell for cell in told}.values()
        if identity is not None and cell.policy in agents
    }
    for rows in there.values():
        known |= {n: row for n, row in rows.items() if _has(row, most) and _same(n, row, own)}
    _refuse_others(out / "cells.partial", own)
    results = finish_cells(
        partial(BudgetWork, evaluation_seed, make_agents, most, own),
        cells,
        settings=settings,
        kept=out / "cells.partial",
        known=known,
        processes=processes,
        progress=progress,
    )
    found: dict[str, Rows] = {}
    # An earlier call that was stopped may have left rows of other tasks.
    for task in dict.fromkeys((*tasks, *(name.split("/")[0] for name in results))):
        found[task] = {n: row for n, row in results.items() if n.split("/")[0] == task}
        path = rows_path(out, task)
        if task not in tasks and path.exists():
            found[task] = {**read_rows(path, settings), **found[task]}
        if any(name not in known for name in found[task]):
            _write(path, task, settings, found[task])
    (out / "cells.partial").unlink(missing_ok=True)
    return {task: found[task] for task in tasks}


def _has(row: Mapping[str, Any], most: int) -> bool:
    """Whether an agent's row goes as far as is asked."""
    asked = sum(budget <= most for budget in BUDGETS)
    return "schedules" not in row or len(row["throughput"]) in (1, *range(asked, len(BUDGETS) + 1))


def _refuse_others(kept: Path, own: Mapping[str, str]) -> None:
    """DatasetError if a call that was stopped has left rows of another agent."""
    for row in read_kept(kept)[1] if kept.exists() else ():
        name, result = row.get("cell"), row.get("result")
        if isinstance(name, str) and isinstance(result, dict) and not _same(name, result, own):
            raise DatasetError(f"{kept}: holds rows of another agent: {name}: remove it")


def _same(name: str, row: Mapping[str, Any], own: Mapping[str, str]) -> bool:
    """Whether a row is of the agent that has its name today; older rows do not tell."""
    now = own.get(cell_of(name).agent)
    return now is None or row.get("agent") == now


def rows_path(out: Path, task: str) -> Path:
    """The file of a task's rows: ``pmoss validate`` checks it."""
    return out / f"{task}.json"


def _write(path: Path, task: str, settings: Mapping[str, Any], rows: Rows) -> None:
    head = {
        "format": FORMAT,
        **provenance(["pmoss_benchmarks.spatial.budget", "pmoss_agents"]),
        "task": task,
        "settings": settings,
    }
    lines = ",\n  ".join(
        f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items(), key=_place)
    )
    text = json.dumps(head, indent=1)[:-2]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f'{text},\n "rows": {{\n  {lines}\n }}\n}}\n')


def _place(item: tuple[str, Any]) -> tuple[Any, ...]:
    cell = cell_of(item[0])
    return cell.policy, cell.seed, cell.noise, cell.episode


def cell_of(name: str) -> BudgetCell:
    """The cell of a name.

    Raises:
        DatasetError: it names none.
    """
    try:
        task, policy, seed, noise, episode = name.split("/")
        return BudgetCell(task, policy, int(seed), float(noise), int(episode))
    except ValueError as error:
        raise DatasetError(f"row {name!r}: names no cell: {error}") from error


def read_rows(path: Path, settings: Mapping[str, Any] | None = None) -> Rows:
    """The rows of a file.

    Args:
        path: of the file.
        settings: it must have been made with; None: any.

    Raises:
        DatasetError: it cannot be read, or was made with other settings.
    """
    try:
        content = read_json(path)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r}")
        made, rows = content["settings"], content["rows"]
        load_task(content["task"])
        for name, row in rows.items():
            cell = cell_of(name)
            numbers = row["throughput"]
            if cell.task != content["task"] or not 1 <= len(numbers) <= len(BUDGETS):
                raise ValueError(f"row {name!r}: {len(numbers)} throughputs")
            if not all(isinstance(value, float) and 0 <= value < 1e9 for value in numbers):
                raise ValueError(f"row {name!r}: throughput: must be numbers from 0 up")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DatasetError(f"{path}: is no file of budgets: {error}") from error
    if settings is not None and made != settings:
        raise DatasetError(
            f"{path}: was made with {made}, not {settings}: choose another folder, or remove it"
        )
    return dict(rows)


def recheck(path: Path, episodes: int = 1, progress: Progress | None = None) -> list[str]:
    """Runs the rows of some episodes of a file again and compares every bit.

    Rules and searches decide anew. Of agents the stored schedules are measured again.

    Args:
        path: of the file.
        episodes: how many, evenly spread over the file.
        progress: called with (done, total).

    Returns:
        One line for each row that came out different.

    Raises:
        DatasetError: the file is damaged.
        DescriptionError: no episode is asked for.
    """
    if episodes < 1:
        raise DescriptionError(f"episodes = {episodes}: must be at least 1")
    rows = read_rows(path)
    numbers = sorted({cell_of(name).episode for name in rows})
    count = min(episodes, len(numbers))
    chosen = {numbers[i * len(numbers) // count] for i in range(count)}
    again = [name for name in rows if cell_of(name).episode in chosen]
    work = BudgetWork(read_json(path)["settings"]["evaluation_seed"])
    wrong = []
    try:
        for number, name in enumerate(again, 1):
            row, cell = rows[name], cell_of(name)
            if "schedules" in row:
                env_seed = work.begin(cell)
                made = [unpacked(text, work.machine) for text in row["schedules"]]
                now = {"env_seed": env_seed, "throughput": [work.judged(one) for one in made]}
            else:
                now = work(cell)
            wrong += [
                f"{name}: {key}: recorded {row[key]!r}, now {now[key]!r}"
                for key in ("env_seed", "throughput")
                if row[key] != now[key]
            ]
            if progress is not None:
                progress(number, len(again))
    finally:
        work.close()
    return wrong
