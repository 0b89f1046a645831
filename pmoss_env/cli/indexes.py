"""The command that checks an index of a user's library."""

from __future__ import annotations

from typing import Annotated

import typer

from pmoss_env.cli.console import AsJson, Stages, show_rows


def check_index(
    library: Annotated[str, typer.Argument(help="A shared library that includes pmoss/index.h.")],
    operations: Annotated[
        int, typer.Option(min=1000, help="Random operations of each thread.")
    ] = 200_000,
    threads: Annotated[int, typer.Option(min=1, max=15, help="Threads at once.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Of the operations.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="The longest that it may take.")] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Check an index of yours: every answer to random operations is held against a model.

    First one thread is alone, then several work at once. The library runs in a process of its own.

    Example: pmoss check-index ./libmine.so
    Example: pmoss check-index ./libmine.so --threads 8 --operations 1000000
    """
    from pmoss_env.index_check import check_index

    with Stages() as progress:
        progress("checking", 0, 1)
        told = check_index(
            library, operations=operations, threads=threads, seed=seed, seconds=seconds
        )
    show_rows(told[0], ["what was done"], [(line,) for line in told[1:]], as_json)
