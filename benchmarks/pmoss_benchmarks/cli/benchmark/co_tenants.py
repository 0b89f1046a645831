"""`pmoss benchmark co-tenants`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark.options import out_file
from pmoss_env.cli.console import Stages, console, table


def co_tenants(
    family: Annotated[
        list[str] | None,
        typer.Option(help="busy_core, cache_thrash, memory_stream, ...; repeatable."),
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(help="closed or closed:<queries in flight per worker>; repeatable."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Rounds; both schedules in each.")] = 7,
    strength: Annotated[float, typer.Option(help="Of the co-tenant, between 0 and 1.")] = 0.6,
    records: Annotated[int, typer.Option(help="Records in the index.")] = 2_000_000,
    seconds: Annotated[float, typer.Option(help="Length of one measurement.")] = 1.0,
    out: Annotated[Path | None, out_file("Write the figures to this JSON file.")] = None,
) -> None:
    """What reading the counters is worth on this host when a real thread disturbs it.

    Example: pmoss benchmark co-tenants --family busy_core --rounds 9
    """
    from pmoss_benchmarks.spatial.co_tenants import measure_gains
    from pmoss_env.provenance import describe_machine

    with Stages() as progress:
        gains = measure_gains(
            family,
            load,
            rounds=rounds,
            out=out,
            progress=lambda label: partial(progress, label),
            strength=strength,
            options={"records": records, "seconds": seconds},
        )
    console.print(
        table(
            f"LPT that reads core speeds against LPT on {describe_machine()['cpu_model']}",
            ["co_tenant", "load", ">LPT Mq/s", ">aware Mq/s", ">ratio", "95 %"],
            [
                (
                    f"{gain.family} on {gain.target}",
                    gain.load,
                    *(f"{median:.3f}" for median in gain.medians),
                    f"{gain.ratio:.2f}",
                    "[{:.2f}, {:.2f}]".format(*gain.interval) if gain.interval else "",
                )
                for gain in gains
            ],
        )
    )
    if out:
        console.print(f"written to {out}")
