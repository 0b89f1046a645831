"""The commands for user-defined indexes: check and record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import AsJson, Stages, show_rows


def check_index(
    library: Annotated[str, typer.Argument(help="A shared library that includes pmoss/index.h.")],
    operations: Annotated[
        int, typer.Option(min=1000, help="Random operations of each thread.")
    ] = 200_000,
    threads: Annotated[int, typer.Option(min=1, max=15, help="Threads at once.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the operations.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="Time limit in seconds.")] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Check a user-defined index: every answer to random operations is compared with a model.

    First one thread works alone, then several at once. The library runs in a process of its own. If
    no operation ends for a minute, the check is killed and reports that the library hangs.

    Example: pmoss index check ./libmine.so
    Example: pmoss index check ./libmine.so --threads 8 --operations 1000000
    """
    from pmoss_env.index_check import check_index

    with Stages() as progress:
        summary = check_index(
            library,
            operations=operations,
            threads=threads,
            seed=seed,
            seconds=seconds,
            progress=lambda done, total: progress("checking", done, total),
        )
    show_rows(summary[0], ["what was done"], [(line,) for line in summary[1:]], as_json)


def record(
    index: Annotated[str, typer.Option(help="plugin:LIBRARY.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the recording. Default: LIBRARY.recording.")
    ] = None,
    workload: Annotated[
        str, typer.Option("--workload", "-w", help="A workload on keys: a name or a file.")
    ] = "ycsb-a",
    slices: Annotated[int, typer.Option(min=1, max=65536, help="Number of key ranges.")] = 16,
    records: Annotated[int, typer.Option(min=1, help="Records that are loaded.")] = 100_000,
    queries: Annotated[int, typer.Option(min=1, help="Queries of each instance.")] = 30_000,
    instances: Annotated[
        int, typer.Option(min=1, max=1000, help="Workload instances: their hot keys differ.")
    ] = 1,
) -> None:
    """Record the memory accesses of a user-defined index, for the models of machines.

    It serves queries in a process of its own under Valgrind, which must be installed.

    Example: pmoss index record --index plugin:./libmine.so
    Example: pmoss index record --index plugin:./libmine.so --out runs/mine -w lookups --slices 64
    """
    from dataclasses import replace

    from pmoss_env.indexes import PLUGIN, register_plugin
    from pmoss_env.plugin_recordings import RECORDING_SUFFIX
    from pmoss_env.record import record
    from pmoss_env.workloads import load_workload

    library = register_plugin(index).removeprefix(PLUGIN)
    with Stages() as progress:
        made = record(
            library,
            out or f"{library}{RECORDING_SUFFIX}",
            workload=replace(load_workload(workload), records=records),
            slices=slices,
            queries=queries,
            instances=instances,
            progress=progress,
        )
    rows = [(i.seed, i.facts["tool"], i.facts["touched"]) for i in made.instances]
    show_rows(str(made.folder), [">instance", "tool", ">lines per query"], rows)
