"""`pmoss measure`: one schedule, measured on this host or modelled."""

from __future__ import annotations

from typing import Annotated

import typer

from pmoss_env.cli.console import Stages, console, table
from pmoss_env.cli.pairs import pairs
from pmoss_env.cli.tasks import index_and_workload


def measure(
    schedule: Annotated[
        list[str],
        typer.Option(
            "--schedule", "-s", help="A baseline, such as grouped, os-default or lpt; repeatable."
        ),
    ] = ["grouped", "lpt"],  # noqa: B006  # typer copies it
    backend: Annotated[str, typer.Option(help="hardware, analytic or simulated.")] = "hardware",
    machine: Annotated[str, typer.Option(help="host, or a name from `pmoss machines`.")] = "host",
    index: Annotated[
        str | None,
        typer.Option(
            help="btree (slices are key ranges), or rtree (cells of a grid over points in the "
            "plane; not on hardware). Default: what the workload is for."
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            help="A name from `pmoss workloads`. Default: ycsb-a, or rtree-ranges-5m with --index "
            "rtree; rtree-ranges has the paper's 50 million points and takes a minute to load."
        ),
    ] = None,
    slices: Annotated[int, typer.Option(help="Key ranges, or cells.")] = 256,
    load: Annotated[str, typer.Option(help="closed, saturated or open:<Mq/s>.")] = "closed",
    records: Annotated[
        int | None,
        typer.Option(help="Records in the index (hardware: 1,000,000; else the workload's)."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", help="key=value of the backend, as dispatch=modelled; repeatable."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Length of one measurement (hardware).")] = 2.0,
    seed: Annotated[int, typer.Option(help="Seed of the schedules and the measurement.")] = 0,
) -> None:
    """Measure schedules of an index and print throughput, latency and counters.

    Example: pmoss measure -s grouped -s lpt --records 2000000
    Example: pmoss measure --backend simulated --machine skylake-x-8n -s os-default -s lpt
    Example: pmoss measure --backend analytic --machine milan-nps4 --index rtree
    """
    from pmoss_env.backends import make_backend
    from pmoss_env.backends.native_forms import record_shares
    from pmoss_env.measuring import measure_schedules

    index, workload = index_and_workload(index, workload)
    arguments = pairs(options)
    if records is not None:
        arguments["records"] = records
    with Stages() as progress:
        if backend == "hardware":
            size = arguments.setdefault("records", 1_000_000)
            arguments.setdefault("seconds", seconds)
            arguments["progress"] = lambda done: progress("loading the index", done, size)
        else:
            arguments["progress"] = lambda what, seconds: progress(what, 0, 1)
        subject = make_backend(
            backend,
            machine=machine,
            index=index,
            workload=workload,
            slices=slices,
            load=load,
            **arguments,
        )
        snapshots = measure_schedules(
            subject,
            schedule,
            seed=seed,
            progress=lambda done, total: progress("measuring", done, total),
        )
    empty = record_shares(subject.workload, slices).count(0.0)
    if empty:
        console.print(f"{empty} of the {slices} slices hold no records: no query comes to them.")
    console.print(
        table(
            f"{subject.machine.description}, {workload}, load {load}",
            ["schedule", ">Mq/s", ">p50 us", ">p99 us"],
            [
                (name, f"{s.throughput:.3f}", f"{s.latency_p50_us:.1f}", f"{s.latency_p99_us:.1f}")
                for name, s in snapshots.items()
            ],
        )
    )
    _print_counters(next(reversed(snapshots.values())), next(reversed(snapshots)))
    subject.close()


def _print_counters(snapshot: object, name: str) -> None:
    from pmoss_env.types import COUNTERS, HardwareSnapshot

    assert isinstance(snapshot, HardwareSnapshot)
    rows = []
    missing = []
    for i, counter in enumerate(COUNTERS):
        if snapshot.counters_available[i]:
            per_query = snapshot.slice_counters[:, i].sum() / max(snapshot.throughput, 1e-12)
            rows.append((counter.name, f"{per_query:.4g}", f"{snapshot.running_ratio[i]:.0%}"))
        else:
            missing.append(counter.name)
    title = f"Counters per query under {name}"
    console.print(table(title, ["counter", ">per query", ">of the time"], rows))
    if missing:
        console.print(f"Not available: {', '.join(missing)}. `pmoss doctor` says why.")
    if snapshot.provenance.get("roles_share_cores"):
        console.print("Routers and workers share cores on this host: it has few.")
