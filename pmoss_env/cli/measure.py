"""`pmoss measure`: measures schedules on this host or on a model."""

from __future__ import annotations

import math
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_env.cli.console import Stages, console, round_in_words, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import (
    EXPORT_TO,
    BackendOption,
    EnvOption,
    ExportOption,
    ExportToOption,
    MachineOption,
    check_export,
    env_arguments,
    export_placements,
    index_and_workload,
    pairs,
)
from pmoss_env.errors import DescriptionError
from pmoss_env.extras import require

if TYPE_CHECKING:
    from pmoss_env.backends import Backend
    from pmoss_env.types import HardwareSnapshot, Schedule

#: Columns of an open load on this host: see _dispatched().
_OF_OPEN_LOAD = [">lag us", ">waits", ">unanswered"]
#: Arguments of backends that are no settings.
_CALLBACKS = ("progress", "on_round")
RecordsOption = Annotated[
    int | None,
    typer.Option(help="Records in the index; else the workload's (hardware: 1,000,000 at most)."),
]


def measure(
    rules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RULE]...", help="Such as os-default or lpt; without any, grouped and lpt."
        ),
    ] = None,
    backend: Annotated[str, typer.Option(help="hardware, analytic or simulated.")] = "hardware",
    machine: MachineOption = None,
    env: EnvOption = None,
    index: Annotated[
        str | None,
        typer.Option(
            help="A kind of index, such as btree (slices are key ranges) or rtree (cells of a grid "
            "over points in the plane), or plugin:LIBRARY. Default: the workload's."
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            help="A name of `pmoss list workloads`, a file (.toml), sosd:FILE (keys), points:FILE "
            "(.npy). Default: the usual one of the index. rtree-ranges (50M points) takes a minute."
        ),
    ] = None,
    slices: Annotated[int, typer.Option(help="Key ranges, or cells.")] = 256,
    load: Annotated[
        str,
        typer.Option(
            help="closed, closed:<queries in flight per worker>, saturated or open:<Mq/s>."
        ),
    ] = "closed",
    rate: Annotated[
        list[float] | None,
        typer.Option(help="Mq/s that an open load offers, in place of LOAD; repeatable: a curve."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draws the response times over the rates (.svg).")
    ] = None,
    records: RecordsOption = None,
    options: BackendOption = None,
    seconds: Annotated[float, typer.Option(help="Length of one measurement (hardware).")] = 2.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of schedules and measurements.")] = 0,
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of measurements of each schedule, in turn.")
    ] = 1,
    export: ExportOption = None,
    export_to: ExportToOption = EXPORT_TO,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Snapshots with their provenance (.jsonl); an existing file is continued."
        ),
    ] = None,
) -> None:
    """Measure schedules of an index and print throughput, latency and counters.

    On this host each round ends with its first schedule again, and every measurement begins with
    the same records. The ratio is to the mean of the first schedule's two.

    Example: pmoss measure grouped lpt --records 2000000
    Example: pmoss measure os-default lpt --rounds 5 --out runs/host.jsonl
    Example: pmoss measure os-default lpt --export systemd --export-to runs/placement
    Example: pmoss measure lpt --rate 1 --rate 2 --rate 4 --picture runs/latencies.svg
    Example: pmoss measure --index rtree grouped lpt
    Example: pmoss measure --index plugin:./libmine.so grouped lpt
    Example: pmoss measure --backend simulated --machine skylake-x-8n os-default lpt
    Example: pmoss measure --backend analytic --machine milan-nps4 --index rtree
    """
    for file in filter(None, (out, picture)):
        check_output(file, suffix=".svg" if file is picture else "")
    check_export(export, export_to)
    if rate and (out or export):
        raise DescriptionError("--rate: gives a curve: leave out --out and --export")
    for offered in rate or ():
        if not 0 < offered < math.inf:
            raise DescriptionError(f"--rate {offered:g}: must be a positive number")
    if picture and not rate:
        raise DescriptionError(f"--picture {picture}: draws a curve: give each --rate of it")
    if picture:
        require("matplotlib")
    names = rules or ["grouped", "lpt"]
    options_given = {"backend": backend, "index": index, "workload": workload, "load": load}
    asked = _asked({"machine": "host", "slices": slices, **options_given}, env, machine)
    backend = asked.pop("backend")
    arguments = pairs(options)
    if records is not None:
        arguments["records"] = records
    if rate:
        _print_curve(
            _over_rates(rate, names, backend, asked, arguments, seconds, rounds, seed), picture
        )
        return
    _print_rounds(backend, asked, arguments, names, seconds, rounds, seed, out, export, export_to)


def _print_rounds(
    backend: str,
    asked: dict[str, Any],
    arguments: dict[str, Any],
    names: list[str],
    seconds: float,
    rounds: int,
    seed: int,
    out: Path | None,
    export: str | None,
    export_to: Path,
) -> None:
    """Measures schedules in turn, and prints and exports what they serve."""
    from pmoss_env.backends import make_backend
    from pmoss_env.measuring import measure_rounds

    load = asked["load"]
    schedules: dict[str, Schedule] = {}
    with Stages() as progress:
        _add_callbacks(arguments, backend, asked["workload"], seconds, progress)
        subject = make_backend(backend, **asked, **arguments)
        names, without = _with_balancing(names, subject, backend, arguments)
        balanced = _balanced(names, subject, backend, {**asked, **arguments})
        measured = measure_rounds(
            subject,
            names,
            rounds=rounds,
            seed=seed,
            again=subject.measures_host and len(names) > 1,
            balanced=balanced,
            out=out,
            settings=_settings(subject, backend, asked["workload"], load, arguments),
            on_snapshot=_print_round if rounds > 1 or out else None,
            progress=lambda done, total: progress("measuring", done, total),
            on_schedule=schedules.__setitem__,
        )
    _print_measured(subject, measured)
    if without:
        console.print(f"os-default has no rows with AutoNUMA off and on: {without}.")
    if export:
        export_placements(export, subject.machine, schedules, export_to)
    if balanced:
        balanced.close()
    subject.close()


def _over_rates(
    rates: list[float],
    names: list[str],
    backend: str,
    asked: dict[str, Any],
    arguments: dict[str, Any],
    seconds: float,
    rounds: int,
    seed: int,
) -> dict[tuple[float, str], list[HardwareSnapshot]]:
    """The snapshots of each offered rate, Mq/s, and schedule."""
    from pmoss_env.backends import make_backend
    from pmoss_env.measuring import measure_rounds

    curve: dict[tuple[float, str], list[HardwareSnapshot]] = {}
    with Stages() as progress:
        _add_callbacks(arguments, backend, asked["workload"], seconds, progress)
        for number, rate in enumerate(sorted(set(rates))):
            offered = {**asked, "load": f"open:{rate!r}", **arguments}
            progress("measuring", number, len(set(rates)))
            with ExitStack() as opened:
                subject = opened.enter_context(closing(make_backend(backend, **offered)))
                if balanced := _balanced(names, subject, backend, offered):
                    opened.enter_context(closing(balanced))
                for measured in measure_rounds(
                    subject, names, rounds=rounds, seed=seed, balanced=balanced
                ):
                    for name, snapshot in measured.items():
                        curve.setdefault((rate, name), []).append(snapshot)
    return curve


def _print_curve(
    curve: dict[tuple[float, str], list[HardwareSnapshot]], picture: Path | None
) -> None:
    """The table of response times over offered rates, and their picture."""
    from pmoss_env.measuring import dispatched, overload_in_words
    from pmoss_env.pictures import new_figure, write_svg

    columns = [">offered Mq/s", "schedule", ">Mq/s", ">range", ">p50 us", ">p99 us"]
    if _tail(next(iter(curve.values()))):
        columns += [">p99.9 us", ">max us"]
    rows = [(f"{rate:g}", *_row(name, snapshots)) for (rate, name), snapshots in curve.items()]
    if dispatched(next(iter(curve.values()))[0]):
        columns += _OF_OPEN_LOAD
        rows = [
            (*row, *_dispatched(snapshots))
            for row, snapshots in zip(rows, curve.values(), strict=True)
        ]
    console.print(table("Response times over offered rates", columns, rows))
    for (_, name), snapshots in curve.items():
        if overload := overload_in_words(snapshots[-1]):
            console.print(f"{name}: {overload}.")
    if picture is None:
        return
    figure = new_figure(7, 4)
    axes = figure.add_subplot(xlabel="offered, Mq/s", ylabel="response time, us", yscale="log")
    for number, name in enumerate(dict.fromkeys(name for _, name in curve)):
        rates = [rate for rate, other in curve if other == name]
        for share, line in (("p50", "--"), ("p99", "-")):
            medians = [
                median(getattr(snapshot, f"latency_{share}_us") for snapshot in curve[rate, name])
                for rate in rates
            ]
            label = f"{name}, {share}"
            axes.plot(rates, medians, line, marker="o", color=f"C{number}", label=label)
    axes.legend()
    console.print(f"Picture: {write_svg(figure, picture)}")


def _with_balancing(
    names: list[str], subject: Backend, backend: str, arguments: dict[str, Any]
) -> tuple[list[str], str]:
    """The names with rows of AutoNUMA after os-default; or the same, and why there are none."""
    from pmoss_env.measuring import BALANCED, balancing_rows

    if BALANCED not in names or "numa_balancing" in arguments:
        return names, ""
    nodes = subject.machine.nodes if subject.measures_host else None
    rows, without = balancing_rows(backend, nodes)
    behind = names.index(BALANCED) + 1
    rows = [row for row in rows if row not in names]
    return [*names[:behind], *rows, *names[behind:]], without


def _balanced(
    names: list[str], subject: Backend, backend: str, arguments: dict[str, Any]
) -> Backend | None:
    """A model like ``subject`` with automatic NUMA balancing, where a name asks for it."""
    from pmoss_env.backends import make_backend
    from pmoss_env.measuring import AUTO_NUMA, check_balancing

    nodes = subject.machine.nodes if subject.measures_host else None
    check_balancing(names, backend, nodes, arguments)
    if AUTO_NUMA not in names or subject.measures_host:
        return None
    return make_backend(backend, **arguments, numa_balancing=True)


def _asked(asked: dict[str, Any], env: list[str] | None, machine: str | None) -> dict[str, Any]:
    """What is measured: arguments by their own options, or by those of environments."""
    from pmoss_env.errors import UnknownNameError

    given = env_arguments(env, machine)
    for name in given.keys() - asked.keys():
        raise UnknownNameError("environment argument of a measurement", name, asked)
    asked |= given
    asked["index"], asked["workload"] = index_and_workload(asked["index"], asked["workload"])
    return asked


def _add_callbacks(
    arguments: dict[str, Any], backend: str, workload: str, seconds: float, progress: Stages
) -> None:
    """Adds progress to the backend's arguments; on this host also defaults for its size."""
    from pmoss_env.backends import backend_class, backend_options
    from pmoss_env.workloads import load_workload

    if backend_class(backend).measures_host:
        size = arguments.setdefault("records", min(1_000_000, load_workload(workload).records))
        arguments.setdefault("seconds", seconds)
        arguments["progress"] = lambda done: progress("loading the index", done, size)
        arguments["on_round"] = lambda of_round: progress.note(round_in_words(of_round))
    elif "progress" in backend_options(backend):
        arguments["progress"] = lambda what, seconds: progress(what, 0, 1)


def _settings(
    subject: Backend, backend: str, workload: str, load: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """The settings that must be the same to continue a result file."""
    return {
        "machine": subject.machine.name,
        "workload": workload,
        "slices": subject.slices,
        "load": load,
        "backend": {key: value for key, value in arguments.items() if key not in _CALLBACKS},
        "backend_name": backend,
    }


def _print_measured(subject: Backend, measured: list[dict[str, HardwareSnapshot]]) -> None:
    """The table of all schedules, and the counters of the last one."""
    from pmoss_env.backends.native_forms import record_shares
    from pmoss_env.measuring import AGAIN, overload_in_words

    snapshots = measured[-1]
    empty = record_shares(subject.workload, subject.slices).count(0.0)
    if empty:
        console.print(
            f"{empty} of the {subject.slices} slices hold no records: no query comes to them."
        )
    columns = ["schedule", ">Mq/s", ">range", ">p50 us", ">p99 us"]
    if _tail(list(snapshots.values())):
        columns += [">p99.9 us", ">max us"]
    rows = [_row(name, [of_round[name] for of_round in measured]) for name in snapshots]
    first, last = next(iter(snapshots)), list(snapshots)[-1]
    if last == AGAIN.format(first):
        columns += [">ratio [95 %]", ">records"]
        rows = [(*row, *_compared(row[0], first, measured)) for row in rows]
        last = list(snapshots)[-2]
    if subject.load.kind == "open" and subject.measures_host:
        columns += _OF_OPEN_LOAD
        rows = [(*row, *_dispatched([s[row[0]] for s in measured])) for row in rows]
    title = f"{subject.machine.description}, {subject.workload.name}, load {subject.load}"
    console.print(table(title, columns, rows))
    for name, snapshot in snapshots.items():
        if overload := overload_in_words(snapshot):
            console.print(f"{name}: {overload}.")
    _print_counters(snapshots[last], last)


def _row(name: str, snapshots: list[HardwareSnapshot]) -> tuple[str, ...]:
    """Medians over the rounds, and the range of the throughput."""
    throughputs = sorted(snapshot.throughput for snapshot in snapshots)
    span = f"{throughputs[0]:.3f} .. {throughputs[-1]:.3f}" if len(snapshots) > 1 else ""
    return (
        name,
        f"{median(throughputs):.3f}",
        span,
        f"{median(s.latency_p50_us for s in snapshots):.1f}",
        f"{median(s.latency_p99_us for s in snapshots):.1f}",
        *_tail(snapshots),
    )


def _dispatched(snapshots: list[HardwareSnapshot]) -> list[str]:
    """How late routers sent at most, how often they waited for room, and what was left; medians."""
    from pmoss_env.measuring import dispatched

    dispatches = [dispatched(snapshot) for snapshot in snapshots]
    return [
        f"{median(each.get(name, 0) for each in dispatches):,.0f}"
        for name in ("max_lag_us", "backpressure", "unanswered")
    ]


def _tail(snapshots: list[HardwareSnapshot]) -> list[str]:
    """Median of the 99.9th percentiles, and the longest response time; nothing of a model."""
    if any(math.isnan(snapshot.latency_max_us) for snapshot in snapshots):
        return []
    return [
        f"{median(s.latency_p999_us for s in snapshots):.1f}",
        f"{max(s.latency_max_us for s in snapshots):.1f}",
    ]


def _compared(
    name: str, first: str, measured: list[dict[str, HardwareSnapshot]]
) -> tuple[str, str]:
    """The ratio to the first schedule, measured before and after, and the records at the start."""
    from pmoss_env.measuring import AGAIN, Comparison, mean_ratio, ratio_in_words

    again = AGAIN.format(first)
    counts = sorted({s[name].provenance["records_before"] for s in measured})
    records = " .. ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    if name in (first, again):
        return "", records
    compared = [Comparison.of(s[first], s[name], s[again]) for s in measured]
    if any(not each.ratio > 0 for each in compared):
        return "", records
    return ratio_in_words(*mean_ratio([(each.ratio, each.error) for each in compared])), records


def _print_round(number: int, name: str, snapshot: HardwareSnapshot) -> None:
    """A line of the live view: throughput, and that of each node's workers."""
    nodes = snapshot.provenance.get("node_mq_per_s", {})
    by_node = "  ".join(f"node {node}: {value:.3f}" for node, value in nodes.items())
    busy = snapshot.counter("elapsed_us").sum()
    console.print(
        f"round {number}  {name:<20}{snapshot.throughput:8.3f} Mq/s  "
        f"p99 {snapshot.latency_p99_us:.0f} us  {busy:.2f} cores busy  {by_node}"
    )


def _print_counters(snapshot: object, name: str) -> None:
    from pmoss_env.backends.data_facts import misplaced_lines, placement_lines
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
    for name_of_extra, rates in snapshot.extra_counters.items():
        rows.append((name_of_extra, f"{rates.sum() / max(snapshot.throughput, 1e-12):.4g}", ""))
    title = f"Counters per query under {name}"
    console.print(table(title, ["counter", ">per query", ">of the time"], rows))
    if missing:
        why = "`pmoss doctor` says why" if "host" in snapshot.provenance else "The model has none"
        console.print(f"Not available: {', '.join(missing)}. {why}.")
    for core in snapshot.provenance.get("shared_cores", []):
        cpus = ", ".join(map(str, core["cpus"]))
        console.print(f"One core serves {' and '.join(core['roles'])} (CPU {cpus}).")
    limit = snapshot.provenance.get("host", {}).get("cpu_limit", "none")
    if limit != "none":
        console.print(f"The control group has the time of {limit} CPUs: more stops all threads.")
    for line in placement_lines(snapshot.provenance):
        console.print(line)
    for line in misplaced_lines(snapshot.provenance, name):
        console.print(line)
