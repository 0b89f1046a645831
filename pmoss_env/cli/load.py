"""`pmoss run load`: a key-value store under load, as a target for thread scheduling."""

from __future__ import annotations

from typing import Annotated

import typer

from pmoss_env.cli.console import console


def load(
    pattern: Annotated[
        str,
        typer.Argument(
            help="readrandom, readseq, fillrandom, fillseq, mixed50, mixed70 or mixed90."
        ),
    ],
    threads: Annotated[int, typer.Option(help="Threads.")] = 4,
    keys: Annotated[int, typer.Option(help="Values in the store.")] = 2000,
    value_bytes: Annotated[int, typer.Option(help="Bytes of a value.")] = 100_000,
    node: Annotated[int | None, typer.Option(help="Where the values lie.")] = None,
    requests: Annotated[int | None, typer.Option(help="Requests to answer.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Time to run.")] = None,
) -> None:
    """Run a key-value store under load on this host: a target for `pmoss run threads`.

    Example: pmoss run load readrandom --threads 8 --seconds 10
    """
    from pmoss_env.envs.threads.key_value_load import run_load

    result = run_load(
        pattern,
        threads=threads,
        keys=keys,
        value_bytes=value_bytes,
        node=node,
        requests=requests,
        seconds=10.0 if requests is None and seconds is None else seconds,
    )
    console.print(
        f"{pattern}: {result.requests} requests in {result.seconds:.2f} s, "
        f"{result.gb_per_s:.2f} GB/s, p99 {result.p99_ms:.3f} ms; "
        f"user {result.user_seconds:.2f} s, sys {result.kernel_seconds:.2f} s"
    )
