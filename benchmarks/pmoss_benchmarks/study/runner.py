"""Doing the cells of a study, keeping each as soon as it is done, and replaying them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pmoss_benchmarks.study.description import Study
from pmoss_benchmarks.study.function import (
    Cell,
    Progress,
    Row,
    Run,
    identity_of,
    load_function,
    name_of,
    settings_of,
)
from pmoss_benchmarks.study.store import (
    RESERVED,
    RUN,
    StoredStudy,
    header_of,
    read_stored,
    write_stored,
)
from pmoss_datasets.executors import check_executor, run_tasks
from pmoss_env.errors import DatasetError, DescriptionError, PmossError, UnsupportedError
from pmoss_env.provenance import MEASURED, MODELLED, changed_since, provenance
from pmoss_env.result_files import ResultFile


def silent(what: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


def run_study(
    study: Study,
    out: Path,
    *,
    data: Path,
    keep: Path,
    results: Path,
    changes: Mapping[str, Any] | None = None,
    small: bool = False,
    mixed: bool = False,
    executor: str = "processes",
    processes: int = 1,
    address: str | None = None,
    progress: Progress = silent,
) -> StoredStudy:
    """Does the cells that ``out`` lacks; interrupted or killed, the same call goes on.

    Args:
        study: to run.
        out: file of the rows.
        data: folder of datasets.
        keep: folder of checkpoints and the like.
        results: folder of stored results that functions may look into.
        changes: settings that override those of the study.
        small: take the study's small settings.
        mixed: go on with rows that other code made; each row names its run.
        executor: see ``pmoss_datasets.executors.run_tasks``.
        processes: likewise.
        address: likewise.
        progress: called with (what, done, total).

    Raises:
        UnknownNameError: the function or a setting is unknown.
        DescriptionError: a setting is wrong, or there is no cell.
        DatasetError: the file holds another study, other settings, or rows of other code.
    """
    check_executor(executor, processes)
    function = load_function(study.function)
    values = {**study.settings, **(study.small if small else {}), **(changes or {})}
    settings = settings_of(function, values)
    cells = {name_of(cell): cell for cell in function.cells(settings)}
    if not cells:
        raise DescriptionError(f"study {study.name}: its settings choose no cell")
    run = Run(settings, data, keep, results)
    native = MEASURED if getattr(function, "MEASURES_HOST", False) else MODELLED
    modules: Callable[[Any], list[str]] = getattr(function, "modules", lambda settings: [])
    made = {
        **provenance([function.__name__, *modules(settings)], native),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    identifier = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:8]
    identity, keys = identity_of(settings), list(next(iter(cells.values())))
    with ResultFile(out, header_of(study.name, identity, keys), key=("cell",)) as file:
        before = {key[0]: row for key, row in file.rows.items()}
        if not mixed:
            _check_code(out, before)
        left = [name for name in cells if name not in before]
        if left:
            if (prepare := getattr(function, "prepare", None)) is not None:
                prepare(run, progress)
            file.append({"cell": RUN + identifier, **made})
            done = len(cells) - len(left)
            progress(study.name, done, len(cells))
            tasks = run_tasks(
                partial(_Work, study.function, run),
                [cells[name] for name in left],
                executor=executor,
                processes=processes,
                address=address,
            )
            with closing(tasks):
                for cell, result in tasks:
                    file.append(_row(cell, identifier, result))
                    done += 1
                    progress(study.name, done, len(cells))
    stored = read_stored(out)
    order = {name: number for number, name in enumerate(cells)}
    rows = sorted(stored.rows, key=lambda row: order.get(row["cell"], len(order)))
    write_stored(out, study.name, identity, keys, stored.runs, rows)
    return read_stored(out)


def replay_study(
    study: Study,
    stored: StoredStudy,
    *,
    data: Path,
    keep: Path,
    results: Path,
    share: float = 1.0,
    progress: Progress = silent,
) -> list[str]:
    """Makes stored rows again, and compares them to the bit.

    A function with ``recheck`` plays what a row recorded; another one does the cell again.

    Args:
        study: of the rows.
        stored: as read_stored() gives them.
        data: as of run_study().
        keep: likewise.
        results: likewise.
        share: of the rows, evenly spread; at least one.
        progress: called with (what, done, total).

    Returns:
        One line for each value that came out different.

    Raises:
        UnsupportedError: the rows are of the host that made them, and never come out again.
    """
    function = load_function(study.function)
    if getattr(function, "MEASURES_HOST", False):
        raise UnsupportedError(
            f"study {study.name}: its rows were measured on a host: they do not come out again"
        )
    chosen = _spread(stored.rows, share)
    settings = settings_of(function, {**study.settings, **stored.settings})
    run = Run(settings, data, keep, results)
    recheck: Callable[[Run, Row], list[str]] | None = getattr(function, "recheck", None)
    differences = []
    with closing(_Work(study.function, run)) as work:
        for done, row in enumerate(chosen, 1):
            if recheck is not None:
                lines = recheck(run, dict(row))
            else:
                cell = stored.cell_of(row)
                again = _row(cell, row["run"], work(cell))
                lines = _differences(json.loads(json.dumps(again)), row)
            differences += [f"{row['cell']}: {line}" for line in lines]
            progress(study.name, done, len(chosen))
    return differences


def is_stale(study: Study, stored: StoredStudy) -> str:
    """Why rows may not be what today's code gives; empty where they are."""
    function = load_function(study.function)
    identity = json.loads(json.dumps(identity_of(settings_of(function, study.settings))))
    if identity != stored.settings:
        names = sorted({*identity, *stored.settings})
        differ = [n for n in names if identity.get(n) != stored.settings.get(n)]
        return f"settings differ: {', '.join(differ)}"
    done = {row["cell"] for row in stored.rows}
    try:
        cells = function.cells(settings_of(function, study.settings))
    except PmossError as error:
        return f"its cells are not known here: {error}"
    missing = [name for name in map(name_of, cells) if name not in done]
    if missing:
        return f"{len(missing)} cells are not done, e.g. {missing[0]}"
    for run in stored.runs.values():
        if not run.get("code", {}).get("modules"):
            return "holds no digests of the code that made it"
        if changed := changed_since(run["code"]):
            return f"changed since: {', '.join(changed)}"
    return ""


class _Work:
    """A function in one process."""

    def __init__(self, name: str, run: Run) -> None:
        function = load_function(name)
        kind = getattr(function, "Work", None)
        self._work = partial(function.measure, run) if kind is None else kind(run)

    def __call__(self, cell: Cell) -> Row:
        result: Row = self._work(cell)
        return result

    def close(self) -> None:
        if (close := getattr(self._work, "close", None)) is not None:
            close()


def _row(cell: Cell, run: str, result: Row) -> Row:
    if clash := {*RESERVED, *cell} & {*result}:
        raise DescriptionError(f"a result has fields of its cell: {', '.join(sorted(clash))}")
    return {"cell": name_of(cell), "run": run, **cell, **result}


def _spread(rows: Any, share: float) -> list[Mapping[str, Any]]:
    count = max(1, round(len(rows) * min(max(share, 0.0), 1.0)))
    return [rows[number * len(rows) // count] for number in range(count)] if rows else []


#: Fields whose values are times.
TIMES = ("seconds", "cpu_seconds", "seconds_per_decision")


def _differences(now: Any, then: Any, where: str = "") -> list[str]:
    """Paths of values that differ, times left out."""
    if isinstance(now, dict) and isinstance(then, Mapping):
        return [
            line
            for key in sorted({*now, *then} - {"row_crc32"})
            if key not in TIMES
            for line in _differences(now.get(key), then.get(key), f"{where}.{key}".lstrip("."))
        ]
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [
            line
            for number, (a, b) in enumerate(zip(now, then, strict=True))
            for line in _differences(a, b, f"{where}[{number}]")
        ]
    return [] if now == then else [f"{where}: stored {then!r}, now {now!r}"]


def _check_code(path: Path, rows: Mapping[str, Row]) -> None:
    """Refuses to go on where other code made the rows that are kept."""
    runs = [row for name, row in rows.items() if name.startswith(RUN)]
    for run in runs:
        if run.get("code", {}).get("modules") and (changed := changed_since(run["code"])):
            raise DatasetError(
                f"{path}: its rows were made by other code ({', '.join(changed)} changed since): "
                "remove the file to make all anew, or give --mixed to go on beside them"
            )
