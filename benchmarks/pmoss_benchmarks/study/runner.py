"""Doing the cells of a study, keeping each as soon as it is done, and replaying them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
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
    silent,
)
from pmoss_benchmarks.study.store import (
    RESERVED,
    RUN,
    StoredStudy,
    header_to_go_on,
    read_stored,
    whole_rows,
)
from pmoss_datasets.executors import check_executor, run_tasks
from pmoss_env.errors import DatasetError, DescriptionError, PmossError, UnsupportedError, few
from pmoss_env.provenance import MEASURED, MODELLED, changed_since, provenance
from pmoss_env.result_files import ResultFile, differing


def run_study(
    study: Study,
    out: Path,
    *,
    data: Path,
    keep: Path,
    results: Path,
    changes: Mapping[str, Any] | None = None,
    small: bool = False,
    allow_other_code: bool = False,
    executor: str = "processes",
    processes: int = 1,
    address: str | None = None,
    progress: Progress = silent,
) -> StoredStudy:
    """Does the cells that ``out`` lacks; interrupted or killed, the same call goes on.

    ``data``, ``keep`` and ``results`` are the folders of Run; ``changes`` override the study's
    settings, or its small ones with ``small``. With ``allow_other_code`` it goes on beside rows
    that other code made: each row names its run. ``executor``, ``processes`` and ``address`` are
    those of ``pmoss_datasets.executors.run_tasks``.

    Raises:
        UnknownNameError: the function or a setting is unknown.
        DescriptionError: a setting is wrong, there is no cell, or no small settings.
        DatasetError: the file holds another study, other settings, or rows of other code.
    """
    check_executor(executor, processes, address)
    out = out.resolve()  # where it is a link, the file behind it is replaced
    if small and (not study.small or study.is_variant):
        base = study.name.partition("/")[0]
        only = f"; `pmoss study run {base} --small` runs its study" if study.is_variant else ""
        raise DescriptionError(f"study {study.name}: has no small settings{only}")
    function = load_function(study.function)
    values = {**study.settings, **(study.small if small else {}), **(changes or {})}
    origin = f"{study.path} and --set" if changes else str(study.path)
    settings = settings_of(function, values, origin)
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
    header = header_to_go_on(out, study.name, identity, keys)
    with ResultFile(out, header, key=("cell",)) as file:
        runs, rows = whole_rows(out, file.rows.values())
        before = {row["cell"]: row for row in rows}
        if not allow_other_code:
            _check_code(out, runs.values())
        for name in cells:
            if name in before and (what := _differs(function, settings, before[name])):
                raise DatasetError(
                    f"{out}: {name}: was made with another {what}: take another --out, or remove it"
                )
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
        if left or rows != list(stored.rows):
            if os.name == "nt":
                file.close()  # an open file cannot be replaced there
            stored = replace(stored, rows=rows)
            stored.write()
    return stored


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

    A function with ``again`` plays what a row recorded; another one does the cell again.

    ``data``, ``keep`` and ``results`` are the folders of Run; ``share`` is that of the rows which
    are made, evenly spread, at least one.

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
    again: Callable[[Run, Row], Row] | None = getattr(function, "again", None)
    differences = []
    with closing(_Work(study.function, run)) as work:
        for done, row in enumerate(chosen, 1):
            if again is not None:
                lines = differences_of(function, row, again(run, dict(row)))
            else:
                cell = stored.cell_of(row)
                now = _row(cell, row["run"], work(cell))
                lines = differences_of(function, row, {**dict.fromkeys({*row}), **now})
            differences += [f"{row['cell']}: {line}" for line in lines]
            progress(study.name, done, len(chosen))
    return differences


def is_stale(study: Study, stored: StoredStudy) -> str:
    """Why rows may not be what today's code gives; empty where they are."""
    function = load_function(study.function)
    settings = settings_of(function, study.settings)
    identity = json.loads(json.dumps(identity_of(settings)))
    if differ := differing(stored.settings, identity):
        return f"settings differ: {few(differ, 3)}"
    done = {row["cell"] for row in stored.rows}
    try:
        cells = function.cells(settings)
    except PmossError as error:
        return f"its cells are not known here: {error}"
    missing = [name for name in map(name_of, cells) if name not in done]
    if missing:
        return f"{len(missing)} cells are not done, e.g. {missing[0]}"
    for row in stored.rows:
        if what := _differs(function, settings, row):
            return f"{row['cell']}: was made with another {what}"
    for run in stored.runs.values():
        if not run.get("code", {}).get("modules"):
            return "holds no digests of the code that made it"
        if changed := changed_since(run["code"]):
            return f"changed since: {few(changed, 3)}"
    return ""


def _differs(function: ModuleType, settings: Any, row: Mapping[str, Any]) -> str:
    """What the settings say otherwise now than when a row was made, of functions that know it."""
    differs: Callable[[Any, Mapping[str, Any]], str] | None = getattr(function, "differs", None)
    return "" if differs is None else differs(settings, row)


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


#: Fields that are left out where rows are compared: times, and the checksum.
_UNCOMPARED = (
    *("seconds", "cpu_seconds", "seconds_per_decision", "prepare_seconds", "simulate_seconds"),
    *("us_per_decision", "timings", "row_crc32"),
)


def differences_of(function: ModuleType, stored: Mapping[str, Any], again: Row) -> list[str]:
    """One line for each value of the fields made again that differs from the stored one."""
    then = {name: stored.get(name) for name in again}
    now = json.loads(json.dumps(again))
    tolerances: Mapping[str, float] = getattr(function, "TOLERANCES", {})
    return [
        line
        for name in sorted({*now} - {*_UNCOMPARED})
        for line in _differences(now[name], then[name], name, tolerances.get(name, 0.0))
    ]


def _differences(now: Any, then: Any, where: str, tolerance: float) -> Iterator[str]:
    if isinstance(now, dict) and isinstance(then, Mapping):
        for key in sorted({*now, *then} - {*_UNCOMPARED}):
            yield from _differences(now.get(key), then.get(key), f"{where}.{key}", tolerance)
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for number, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from _differences(one, other, f"{where}[{number}]", tolerance)
    elif not (now == then or _are_close(now, then, tolerance)):
        yield f"{where}: stored {then!r}, now {now!r}"


def _are_close(now: Any, then: Any, tolerance: float) -> bool:
    are_numbers = isinstance(now, float) and isinstance(then, float)
    return are_numbers and math.isclose(now, then, rel_tol=tolerance, abs_tol=0.0)


def _check_code(path: Path, runs: Iterable[Mapping[str, Any]]) -> None:
    """Refuses to go on where other code made the rows that are kept."""
    for run in runs:
        if run.get("code", {}).get("modules") and (changed := changed_since(run["code"])):
            raise DatasetError(
                f"{path}: its rows were made by other code ({few(changed, 3)} changed since): "
                "remove the file to make all anew, or give --other-code to go on beside them"
            )
