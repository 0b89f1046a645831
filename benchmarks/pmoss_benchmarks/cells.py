"""Many independent pieces of work over machines and workloads, kept as soon as each is done."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pmoss_benchmarks.report import describe_machine
from pmoss_env import __version__
from pmoss_env.backends.base import INDEXES
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.files import write_atomically
from pmoss_env.interference import possible_draws
from pmoss_env.machines import Machine, load_machine, machine_names
from pmoss_env.processes import die_with_parent
from pmoss_env.workloads import load_workload, workload_names

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Cell:
    """One combination that a benchmark looks at.

    Attributes:
        machine: catalogue name.
        index: "btree" or "rtree".
        workload: catalogue name.
        load: load regime, as in the environment's argument.
        interference: family of neighbours.
    """

    machine: str
    index: str
    workload: str
    load: str = "closed"
    interference: str = "none"

    @property
    def name(self) -> str:
        """The combination in one word, e.g. "toy/btree/lookups/closed/none"."""
        return "/".join(asdict(self).values())


def catalogue_cells(
    machines: Sequence[str] | None,
    workloads: Sequence[str] | None,
    loads: Sequence[str],
    interference: Sequence[str] = ("none",),
    indexes: Sequence[str] | None = None,
) -> list[Cell]:
    """All combinations of some machines and workloads; None: all that can be modelled.

    Families of neighbours that a machine cannot have are left out, and workloads for other indexes.

    Raises:
        UnknownNameError: a name that is in no catalogue.
    """
    for index in indexes or []:
        if index not in INDEXES:
            raise UnknownNameError("index", index, list(INDEXES))
    chosen = [name for name in machines or machine_names() if load_machine(name).parameters]
    return [
        Cell(machine, load_workload(workload).index, workload, load, family)
        # Machines innermost: those of one workload share its recording.
        for workload in workloads or workload_names()
        if indexes is None or load_workload(workload).index in indexes
        for machine in chosen
        for load in loads
        for family in interference
        if _is_possible(family, load_machine(machine))
    ]


def _is_possible(interference: str, machine: Machine) -> bool:
    try:
        possible_draws(interference, machine)
    except UnsupportedError:
        return False
    return True


Work = Callable[[Cell], dict[str, Any]]


def run_cells(
    work: Work,
    cells: Sequence[Cell],
    *,
    settings: dict[str, Any],
    command: str,
    out: Path | None = None,
    processes: int = 1,
    progress: Progress = lambda done, total: None,
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

    Raises:
        DescriptionError: no cell, or less than one process.
        DatasetError: results of another run are in the way.
    """
    if processes < 1 or not cells:
        raise DescriptionError(f"{processes} processes for {len(cells)} cells: at least 1 of each")
    kept = _Kept(out, settings)
    left = [cell for cell in cells if cell.name not in kept.results]
    progress(len(cells) - len(left), len(cells))
    for done, (cell, result) in enumerate(
        _results(work, left, processes), start=len(cells) - len(left) + 1
    ):
        kept.add(cell, result)
        progress(done, len(cells))
    report = {
        "command": command,
        "version": __version__,
        "machine": describe_machine(),
        "settings": settings,
        "cells": [{**asdict(cell), **kept.results[cell.name]} for cell in cells],
    }
    if out is not None:
        write_atomically(out, json.dumps(report, indent=1) + "\n")
        kept.remove()
    return report


def _results(
    work: Work, cells: Sequence[Cell], processes: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    if processes == 1:
        for cell in cells:
            yield cell, work(cell)
        return
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=die_with_parent,
        initargs=(os.getpid(),),
    )
    futures: dict[Future[dict[str, Any]], Cell] = {pool.submit(work, cell): cell for cell in cells}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Kept:
    """Results so far, in a file of one line each behind a line of settings."""

    def __init__(self, out: Path | None, settings: dict[str, Any]) -> None:
        self.results: dict[str, dict[str, Any]] = {}
        self._path = None if out is None else out.with_suffix(".partial")
        if self._path is None:
            return
        header = json.dumps({"version": __version__, "settings": settings}, sort_keys=True)
        if not self._path.exists():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(header + "\n")
            return
        first, *lines = self._path.read_text().splitlines()
        if first != header:
            raise DatasetError(
                f"{self._path} holds results of a run with other settings: finish that run, "
                "or remove the file"
            )
        for line in lines:
            try:
                name, result = json.loads(line)
            except ValueError:
                break  # an interruption cut the last line
            self.results[name] = result
        whole = [json.dumps(pair) for pair in self.results.items()]
        write_atomically(self._path, "\n".join([header, *whole]) + "\n")

    def add(self, cell: Cell, result: dict[str, Any]) -> None:
        self.results[cell.name] = result
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps([cell.name, result]) + "\n")

    def remove(self) -> None:
        if self._path is not None:
            self._path.unlink()
