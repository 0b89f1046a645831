"""Many independent pieces of work over machines and workloads, kept as soon as each is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from pmoss_datasets.executors import Work, check_executor, run_tasks
from pmoss_env import __version__
from pmoss_env.errors import DescriptionError
from pmoss_env.files import write_atomically
from pmoss_env.provenance import provenance
from pmoss_env.result_files import ResultFile

Progress = Callable[[int, int], None]


class Named(Protocol):
    """A cell of any benchmark: a dataclass of plain JSON with a name of its own."""

    @property
    def name(self) -> str:
        """Decides the cell."""


C = TypeVar("C", bound=Named)
Result = dict[str, Any]


def run_cells(
    work: Callable[[C], Result],
    cells: Sequence[C],
    *,
    settings: dict[str, Any],
    command: str,
    out: Path | None = None,
    processes: int = 1,
    progress: Progress = lambda done, total: None,
    **notes: Any,
) -> dict[str, Any]:
    """Does ``work`` for every cell and returns (and writes) the results in the order of the cells.

    With ``out``, every result is kept in a file beside it as soon as it is there: the same call
    goes on from there after an interruption.

    Args:
        work: a function that can be pickled; the same bits whatever the process.
        cells: what to do.
        settings: what the results depend on; results kept under other settings are refused.
        command: the command line that makes the results, written beside them.
        out: JSON file to write.
        processes: worker processes; 1 works in this one.
        progress: called with (done, total).
        **notes: further plain-JSON facts for the head of the file.

    Raises:
        DescriptionError: no cell, or less than one process.
        DatasetError: results of another run are in the way.
    """
    kept = None if out is None else out.with_suffix(".partial")
    results = finish_cells(
        partial(_Function, work),
        cells,
        settings=settings,
        kept=kept,
        processes=processes,
        progress=progress,
    )
    # A partial function says that it is of functools.
    function = work.func if isinstance(work, partial) else work
    report = {
        **notes,
        **provenance([function.__module__]),
        "command": command,
        "settings": settings,
        "cells": [{**asdict(cast(Any, cell)), **results[cell.name]} for cell in cells],
    }
    if out is not None and kept is not None:
        write_atomically(out, json.dumps(report, indent=1) + "\n")
        kept.unlink(missing_ok=True)
    return report


class _Function:
    """A function as work."""

    def __init__(self, function: Callable[[Any], Result]) -> None:
        self._function = function

    def __call__(self, cell: Any) -> Result:
        return self._function(cell)

    def close(self) -> None:
        """Nothing is held."""


def finish_cells(
    make_work: Callable[[], Work[C, Result]],
    cells: Sequence[C],
    *,
    settings: dict[str, Any],
    kept: Path | None = None,
    known: Mapping[str, Result] | None = None,
    executor: str = "processes",
    processes: int = 1,
    address: str | None = None,
    progress: Progress = lambda done, total: None,
) -> dict[str, Result]:
    """Does the cells that are not done yet and returns the results of all by name.

    Args:
        make_work: see ``pmoss_datasets.executors.run_tasks``; the same bits whatever the process.
        cells: what to do.
        settings: what the results depend on; results kept under other settings are refused.
        kept: file that results go to as soon as they are there; the same call goes on from it.
        known: results that need not be found again; they are among those returned, asked or not.
        executor: see ``run_tasks``.
        processes: likewise.
        address: likewise.
        progress: called with (done, total).

    Raises:
        DescriptionError: no cell, or less than one process.
        DatasetError: results of another run are in the way.
    """
    check_executor(executor, processes)
    if not cells:
        raise DescriptionError("no cells: there is nothing to do")
    header = {"kind": "cells", "version": __version__, "settings": settings}
    with ResultFile(kept, header, key=("cell",)) as file:
        results = {**(known or {}), **{row["cell"]: row["result"] for row in file.rows.values()}}
        left = [cell for cell in cells if cell.name not in results]
        done = len(cells) - len(left)
        progress(done, len(cells))
        found = run_tasks(make_work, left, executor=executor, processes=processes, address=address)
        with closing(found):
            for number, (cell, result) in enumerate(found if left else (), start=done + 1):
                row = file.append({"cell": cell.name, "result": result})
                results[cell.name] = row["result"]
                progress(number, len(cells))
    return results
