"""`pmoss benchmark ...`: the figures this project publishes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from pmoss_env.cli.console import Stages, console, progress_bar, table
from pmoss_env.cli.output import check_output
from pmoss_env.files import write_atomically

if TYPE_CHECKING:
    from pmoss_benchmarks.cells import Cell

app = typer.Typer(help="Measure what this project publishes.", no_args_is_help=True)


@app.callback()
def benchmark() -> None:
    """Measure what this project publishes."""


@app.command()
def performance(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="environment, vector-environment, datasets, decision-transformer, index, rtree, "
            "runtime, simulator, sampling or scan; repeatable."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds per figure.")] = 7,
    keys: Annotated[int, typer.Option(help="Records in the index.")] = 30_000_000,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """How fast the parts are: environment step, placement by the model, index lookups.

    OUT is written after every part; parts that it holds and that are not measured stay.

    Example: pmoss benchmark performance --only index --keys 1000000
    """
    from pmoss_benchmarks.evaluation import command_line
    from pmoss_benchmarks.performance import PARTS, run_performance
    from pmoss_benchmarks.report import Report

    if out:
        check_output(out)
    command = command_line()
    report = Report(out)
    chosen = run_performance(only or list(PARTS), rounds=rounds, keys=keys)
    measured = []
    for part, measure in chosen:
        console.print(f"measuring {part} ...")
        report.add(part, command, measure())
        measured += report.parts[part]
    console.print(
        table(
            f"Performance on {report.machine['cpu_model']}, {report.machine['cpus']} CPUs",
            ["figure", ">median", ">least", ">most", "unit", "goal", "reached"],
            [
                (
                    f.name,
                    *(f"{value:.4g}" for value in (f.median, f.low, f.high)),
                    f.unit,
                    f.goal,
                    "" if f.reached is None else ("yes" if f.reached else "no"),
                )
                for f in measured
            ],
        )
    )
    if out:
        console.print(f"written to {out}")


Machines = Annotated[
    list[str] | None, typer.Option("--machine", help="Catalogue name; repeatable; default: all.")
]
Workloads = Annotated[
    list[str] | None, typer.Option("--workload", help="Catalogue name; repeatable; default: all.")
]
Indexes = Annotated[
    list[str] | None,
    typer.Option(
        "--index", help="Only workloads for this kind of index; repeatable; default: all."
    ),
]
Loads = Annotated[
    list[str] | None,
    typer.Option(
        "--load",
        help="closed, closed:<queries in flight per worker>, saturated or open:<Mq/s>; repeatable.",
    ),
]
Processes = Annotated[int, typer.Option(help="Worker processes.")]
Queries = Annotated[
    int | None, typer.Option(help="Queries that the simulator replays; default: by the caches.")
]
Sampling = Annotated[int, typer.Option(help="The simulator keeps one of so many cache lines.")]
Out = Annotated[
    Path | None, typer.Option(help="Write JSON here; the same command goes on after a stop.")
]


def _run(
    work: Callable[[Cell], dict[str, Any]],
    cells: Sequence[Cell],
    settings: dict[str, Any],
    out: Path | None,
    processes: int,
    label: str,
) -> list[dict[str, Any]]:
    from pmoss_benchmarks.cells import run_cells
    from pmoss_benchmarks.evaluation import command_line

    if out:
        check_output(out)
    with progress_bar(label) as bar:
        report = run_cells(
            work,
            cells,
            settings=settings,
            command=command_line(),
            out=out,
            processes=processes,
            progress=bar,
        )
    if out:
        console.print(f"written to {out}")
    results: list[dict[str, Any]] = report["cells"]
    return results


def _verdict(reached: bool | None) -> Text:
    if reached is None:
        return Text("")
    return Text("yes", "green") if reached else Text("no", "red")


@app.command()
def fidelity(
    machine: Machines = None,
    index: Indexes = None,
    workload: Workloads = None,
    load: Loads = None,
    schedules: Annotated[int, typer.Option(help="Stratified schedules per cell.")] = 100,
    moves: Annotated[int, typer.Option(help="Single-slice moves per cell.")] = 60,
    queries: Queries = None,
    line_sampling: Sampling = 64,
    processes: Processes = 1,
    out: Out = None,
) -> None:
    """The error card: how far the analytic model is from the simulated server.

    Example: pmoss benchmark fidelity --machine milan-nps4 --workload ycsb-a --load closed
    Example: pmoss benchmark fidelity --machine milan-nps4 --workload rtree-ranges-5m
    """
    from dataclasses import asdict

    from pmoss_benchmarks.cells import catalogue_cells
    from pmoss_benchmarks.fidelity import GOALS, FidelityOptions, measure_cell, summary

    options = FidelityOptions(
        schedules, moves, simulated={"queries": queries, "line_sampling": line_sampling}
    )
    cells = catalogue_cells(machine, workload, load or ["closed", "saturated"], indexes=index)
    results = _run(
        partial(measure_cell, options), cells, asdict(options), out, processes, "fidelity"
    )
    rows = [
        (
            *(r[key] for key in ("machine", "workload", "load")),
            *(
                f"{r[key]:+.1%}" if key == "bias" else f"{r[key]:.1%}"
                for key in ("median_error", "p95_error", "bias")
            ),
            f"{r['tau']:.3f}",
            f"{r['regret']:.2%}",
            "-" if r["sign_agreement"] is None else f"{r['sign_agreement']:.0%} of {r['moves']}",
            f"{r['spread']:.2f}",
        )
        for r in results
    ]
    columns = ["machine", "workload", "load", ">median", ">95th", ">bias", ">tau", ">regret"]
    console.print(
        table(
            f"Analytic against simulated throughput, {schedules} schedules per cell",
            [*columns, ">signs", ">best/worst"],
            rows,
        )
    )
    medians = summary(results)
    for field, required, aim in GOALS:
        at_least = field in ("tau", "sign_agreement")
        values = [r[field] for r in results if r[field] is not None]
        inside = sum(value >= required if at_least else value <= required for value in values)
        console.print(
            f"{field}: median over cells {medians[field]:.3g}; required "
            f"{'>=' if at_least else '<='} {required:g} (aim {aim:g}), "
            f"reached in {inside} of {len(values)} cells"
        )


@app.command()
def headroom(
    machine: Machines = None,
    index: Indexes = None,
    workload: Workloads = None,
    load: Loads = None,
    interference: Annotated[
        list[str] | None, typer.Option(help="Family of neighbours; repeatable; default: all.")
    ] = None,
    budget: Annotated[int, typer.Option(help="Model evaluations of the search.")] = 4000,
    instances: Annotated[int, typer.Option(help="Workload instances per task.")] = 5,
    queries: Queries = None,
    line_sampling: Sampling = 64,
    processes: Processes = 1,
    out: Out = None,
) -> None:
    """What search finds beyond the paper's schedules and LPT, task by task.

    Example: pmoss benchmark headroom --machine skylake-x-8n --workload ycsb-a --load closed
    Example: pmoss benchmark headroom --machine skylake-x-8n --index rtree --interference none
    """
    from dataclasses import asdict

    from pmoss_benchmarks.cells import catalogue_cells
    from pmoss_benchmarks.headroom import THRESHOLD, HeadroomOptions, measure_cell
    from pmoss_env.interference import INTERFERENCE

    options = HeadroomOptions(
        instances=instances,
        budget=budget,
        simulated={"queries": queries, "line_sampling": line_sampling},
    )
    cells = catalogue_cells(
        machine, workload, load or ["closed"], interference or list(INTERFERENCE), index
    )
    results = _run(
        partial(measure_cell, options), cells, asdict(options), out, processes, "headroom"
    )
    results = sorted(results, key=lambda r: -r["headroom"])
    console.print(
        table(
            f"Headroom, search of {budget} evaluations; throughputs in Mq/s",
            [
                *("machine", "workload", "load", "interference"),
                *(">random", ">simple", "which", ">search", ">headroom", ">simulated", ">rules"),
                "10 %",
            ],
            [
                (
                    *(r[key] for key in ("machine", "workload", "load", "interference")),
                    *(f"{r[key]:.1f}" for key in ("random", "simple")),
                    r["best_simple"],
                    f"{r['search']:.1f}",
                    *(
                        f"{r[key]:+.1%}"
                        for key in ("headroom", "simulated_headroom", "headroom_over_rules")
                    ),
                    _verdict(r["has_headroom"]),
                )
                for r in results
            ],
        )
    )
    console.print(
        f"{sum(r['has_headroom'] for r in results)} of {len(results)} tasks have at least "
        f"{THRESHOLD:.0%} of headroom over the best simple schedule in both fidelities."
    )


@app.command()
def neighbours(
    family: Annotated[
        list[str] | None,
        typer.Option(help="busy_core, cache_thrash, memory_stream, ...; repeatable."),
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(help="closed or closed:<queries in flight per worker>; repeatable."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Rounds; both schedules in each.")] = 7,
    strength: Annotated[float, typer.Option(help="Of the neighbour, between 0 and 1.")] = 0.6,
    records: Annotated[int, typer.Option(help="Records in the index.")] = 2_000_000,
    seconds: Annotated[float, typer.Option(help="Length of one measurement.")] = 1.0,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """What reading the counters is worth on this host when a real thread disturbs it.

    Example: pmoss benchmark neighbours --family busy_core --rounds 9
    """
    from dataclasses import asdict
    from itertools import product

    from pmoss_benchmarks.evaluation import command_line
    from pmoss_benchmarks.neighbours import LOADS, measure_gain
    from pmoss_benchmarks.report import describe_machine
    from pmoss_env.files import write_atomically

    if out:
        check_output(out)
    families = family or ["busy_core", "cache_thrash", "memory_stream"]
    gains = []
    for name, regime in product(families, load or LOADS):
        with progress_bar(f"{name}, {regime}") as progress:
            gains.append(
                measure_gain(
                    name,
                    rounds=rounds,
                    strength=strength,
                    load=regime,
                    options={"records": records, "seconds": seconds},
                    on_round=lambda done, told=progress: told(done, rounds),  # type: ignore[misc]
                )
            )
    machine = describe_machine()
    console.print(
        table(
            f"LPT that reads core speeds against LPT on {machine['cpu_model']}",
            ["neighbour", "load", ">LPT Mq/s", ">aware Mq/s", ">ratio", "95 %"],
            [
                (
                    f"{gain.family} on {gain.target}",
                    gain.load,
                    f"{sorted(gain.lpt_mq_per_s)[rounds // 2]:.3f}",
                    f"{sorted(gain.capacity_mq_per_s)[rounds // 2]:.3f}",
                    f"{gain.ratio:.2f}",
                    "[{:.2f}, {:.2f}]".format(*gain.interval) if gain.interval else "",
                )
                for gain in gains
            ],
        )
    )
    if out:
        told = {"command": command_line(), "machine": machine, "gains": [asdict(g) for g in gains]}
        write_atomically(out, json.dumps(told, indent=2) + "\n")


@app.command()
def validation(
    only: Annotated[
        list[str] | None, typer.Option(help="Number of a statement; repeatable; default: all.")
    ] = None,
    queries: Queries = None,
    line_sampling: Sampling = 64,
    out: Annotated[Path | None, typer.Option(help="Write the verdicts to this JSON file.")] = None,
) -> None:
    """Published statements about real machines: expected, got, tolerance, verdict.

    Ends with status 1 if a hard statement is outside its tolerance.

    Example: pmoss benchmark validation --only 2 --only 3
    """
    from pmoss_benchmarks.evaluation import command_line
    from pmoss_benchmarks.report import describe_machine
    from pmoss_benchmarks.validation import TARGETS, Laboratory, choose, validate
    from pmoss_env import __version__

    if out:
        check_output(out)
    targets = choose(only) if only else TARGETS
    simulated = {"queries": queries, "line_sampling": line_sampling}
    laboratory = Laboratory(simulated=simulated)
    with progress_bar("validation") as bar:
        verdicts = validate(laboratory, targets, lambda target, done, total: bar(done, total))
        bar(len(targets), len(targets))
    laboratory.close()
    console.print(
        table(
            "Published statements",
            ["no", "gate", "statement", "expected", "accepted", ">analytic", ">simulated", ""],
            [
                (
                    v.target.number,
                    v.target.gate,
                    v.target.statement,
                    v.target.expected,
                    f"{v.target.low:g} .. {v.target.high:g}",
                    *(
                        f"{v.got[f]:.3g}" if v.got and v.got[f] == v.got[f] else ""
                        for f in ("analytic", "simulated")
                    ),
                    Text(v.words, {None: "", True: "green", False: "red"}[v.inside]),
                )
                for v in verdicts
            ],
        )
    )
    for v in verdicts:
        if not v.inside and v.target.cause:
            console.print(f"{v.target.number}: {v.target.cause}")
    failed = [v.target.number for v in verdicts if v.target.gate == "hard" and v.inside is False]
    asked = [v for v in verdicts if v.inside is not None]
    console.print(
        f"{sum(bool(v.inside) for v in asked)} of {len(asked)} statements inside; "
        f"hard statements outside: {', '.join(failed) or 'none'}"
    )
    if out:
        report = {
            "command": command_line(),
            "version": __version__,
            "machine": describe_machine(),
            "settings": {
                "simulated": simulated,
                "budget": laboratory.budget,
                "overhead_cycles": laboratory.overhead_cycles,
            },
            "verdicts": [v.as_dict() for v in verdicts],
        }
        write_atomically(out, json.dumps(report, indent=1) + "\n")
        console.print(f"written to {out}")
    if failed:
        raise typer.Exit(1)


@app.command("off-policy")
def off_policy(
    quick: Annotated[
        bool, typer.Option("--quick", help="The toy with small networks: seconds.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the report to this JSON file.")] = None,
) -> None:
    """How well a policy's value is estimated from logged data, held against the exact one.

    Example: pmoss benchmark off-policy --quick
    """
    from pmoss_benchmarks.evaluation import command_line
    from pmoss_benchmarks.off_policy import FULL, QUICK, run_off_policy

    if out:
        check_output(out)
    with Stages() as progress:
        report = run_off_policy(QUICK if quick else FULL, command_line(), progress)
    columns = ["policy", "horizon", "estimator", ">truth", ">estimate", ">error", ">relative"]
    for task in dict.fromkeys(row["task"] for row in report["rows"]):
        cells = [
            (
                *(row[key] for key in ("policy", "horizon", "estimator")),
                *(f"{row[key]:.2f}" for key in ("truth", "estimate", "error")),
                "" if row["relative_error"] is None else f"{row['relative_error']:.0%}",
            )
            for row in report["rows"]
            if row["task"] == task
        ]
        console.print(table(f"{task}: values in Mq/s", columns, cells))
    if out:
        write_atomically(out, json.dumps(report, indent=1) + "\n")
        console.print(f"written to {out}")


@app.command()
def offline(
    suite: Annotated[
        str,
        typer.Option(
            help="core (an hour on two cores), machines (the paper's five), standard or quick."
        ),
    ] = "core",
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task of the suite's; repeatable.")
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="same-task, interference, noise, ...; repeatable; default: the suite's."),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(help="Agent, or opponents (all that do not learn); repeatable; default: all."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Runs per agent and task; default: the suite's.", min=1)
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", "-j", help="Cells at a time; with ray 0: all CPUs.")
    ] = 1,
    executor: Annotated[str, typer.Option(help="processes, or ray for a cluster.")] = "processes",
    ray_address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; none: start one here.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or ~/.pmoss/datasets."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; default: runs/offline/SUITE.")
    ] = None,
) -> None:
    """Train every agent on the same data and let it place what no dataset holds.

    Interrupted or killed, the same command goes on: finished cells are kept in the folder OUT, and
    a command with other agents, tasks or tracks adds to it. README.md there has the tables.

    Example: pmoss benchmark offline --suite quick --agent opponents --agent decision-transformer
    """
    from pmoss_benchmarks.offline import SUITES, run_offline
    from pmoss_datasets.catalog import default_root
    from pmoss_env.errors import UnknownNameError

    if suite not in SUITES:
        raise UnknownNameError("suite", suite, SUITES)
    folder = out or Path("runs/offline") / suite
    check_output(folder, folder=True)
    with Stages() as progress:
        summary = run_offline(
            SUITES[suite].part(task, track, seeds),
            folder,
            data or default_root(),
            agents=agent,
            executor=executor,
            processes=processes,
            address=ray_address,
            progress=progress,
        )
    for name, found in summary["tracks"].items():
        # From the lowest to the highest; each agent's last checkpoint, the best one is in the file.
        policies = sorted(found["overall"].items(), key=lambda item: item[1]["iqm"]["value"])
        rows = [
            (policy, *(_with_interval(of[key]) for key in ("iqm", "mean")))
            for policy, of in policies
            if not policy.endswith(" (best)")
        ]
        title = f"Track {name}: scores over {len(found['tasks'])} tasks"
        console.print(table(title, ["policy", ">IQM [95 %]", ">mean [95 %]"], rows))
    for reason in summary["left_out"].values():
        console.print(f"left out: {reason}", highlight=False)
    console.print(f"written to {folder}")


def _with_interval(estimate: dict[str, float | None]) -> str:
    value, low, high = (estimate[key] for key in ("value", "low", "high"))
    return f"{value:.1f}" if low is None else f"{value:.1f} [{low:.1f}, {high:.1f}]"


@app.command("access-path")
def access_path(
    dataset: Annotated[
        Path | None, typer.Option(help="A dataset of scans; default: simulate one.")
    ] = None,
    combinations: Annotated[int, typer.Option(help="Of features, if one is simulated.")] = 2048,
    repeats: Annotated[int, typer.Option(help="Of each, if one is simulated.")] = 50,
    threads: Annotated[int, typer.Option(help="To simulate in.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json and figures.png.")
    ] = None,
) -> None:
    """The hardware-offload paper: its numbers beside ours, the models, and its figures.

    Ends with status 1 if a hard row, one that nothing was fitted to, is outside its tolerance.

    Example: pmoss benchmark access-path --combinations 64 --repeats 5
    """
    import tempfile

    from pmoss_benchmarks.access_path.episodes import play
    from pmoss_benchmarks.access_path.figures import draw_figures
    from pmoss_benchmarks.access_path.reproduction import reproduce
    from pmoss_benchmarks.cli.access_path import models_table
    from pmoss_benchmarks.evaluation import command_line
    from pmoss_benchmarks.report import describe_machine
    from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans, open_scans
    from pmoss_env import __version__

    if out:
        check_output(out / "results.json")
    with tempfile.TemporaryDirectory() as temporary:
        if dataset is None:
            recipe = AccessPathRecipe(combinations=combinations, repeats=repeats)
            with progress_bar("simulating scans") as bar:
                scans = collect_scans(recipe, Path(temporary) / "scans", bar, threads)
        else:
            scans = open_scans(dataset)
        rows, scores, measurements = reproduce(scans, lambda what: console.print(f"{what} ..."))
        with progress_bar("playing episodes") as bar:
            episodes = play(scans, bar)
    console.print(
        table(
            "Adaptive Access Path Selection, UV 300H",
            ["row", "what", ">paper", ">ours", ">tolerance", "verdict"],
            [
                (
                    row.row,
                    row.what,
                    f"{row.paper:g}",
                    f"{row.ours:.4g}",
                    f"{row.low:.3g} .. {row.high:.3g}",
                    Text(
                        row.verdict if row.verdict != "fitted" else f"fitted: {row.basis}",
                        {"inside": "green", "outside": "red", "fitted": ""}[row.verdict],
                    ),
                )
                for row in rows
            ],
        )
    )
    console.print(models_table(scores, f"Models, trained on 80 % of {len(scans):,} observations"))
    console.print(
        table(
            "Agents in pmoss/AccessPath-v0: time above the oracle's, all scans",
            ["agent", ">fitted to", ">above oracle", ">last half"],
            [
                (e.agent, e.fitted_to, f"{e.above_oracle:.2%}", f"{e.above_oracle_late:.2%}")
                for e in episodes
            ],
        )
    )
    judged = [row for row in rows if row.verdict != "fitted"]
    outside = [row for row in judged if row.verdict == "outside"]
    for row in outside:
        console.print(f"{row.row}, {row.what}: {row.note or 'no cause is known'}", highlight=False)
    console.print(
        f"{len(judged) - len(outside)} of {len(judged)} predicted rows inside; "
        f"{len(rows) - len(judged)} rows were fitted to."
    )
    if out:
        report = {
            "command": command_line(),
            "version": __version__,
            "machine": describe_machine(),
            "dataset": {"id": scans.id, "checksum": scans.checksum, "observations": len(scans)},
            "rows": [row.as_dict() for row in rows],
            "models": [score.as_dict() for score in scores],
            "agents": [e.as_dict() for e in episodes],
        }
        write_atomically(out / "results.json", json.dumps(report, indent=1) + "\n")
        draw_figures(measurements, out / "figures.png")
        console.print(f"written to {out}")
    if any(row.gate == "hard" for row in outside):
        raise typer.Exit(1)


@app.command()
def threads(
    seeds: Annotated[int, typer.Option(help="Runs per program and method.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Write threads.json and the pictures to this folder.")
    ] = None,
) -> None:
    """The Smart Scheduler paper's figures: paper, ours, accepted range, verdict.

    Example: pmoss benchmark threads --seeds 3
    """
    from dataclasses import asdict

    from pmoss_benchmarks.evaluation import command_line
    from pmoss_benchmarks.report import describe_machine
    from pmoss_benchmarks.threads import FITTED, METHODS, reproduce, timings
    from pmoss_benchmarks.threads.reproduction import draw
    from pmoss_env import __version__
    from pmoss_env.files import write_atomically

    if out:
        check_output(out, folder=True)
    with progress_bar("threads") as bar:
        rows, comparison, pictures = reproduce(seeds=seeds, progress=bar)
    console.print(
        table(
            f"Minutes of real time, mean of {seeds} runs",
            ["program", *(f">{method}" for method in METHODS)],
            [
                *(
                    (p, *(f"{comparison.mean(p, m) / 60:.2f}" for m in METHODS))
                    for p in comparison.runs
                ),
                ("sum", *(f"{comparison.total(m) / 60:.2f}" for m in METHODS)),
            ],
        )
    )
    colours = {"inside": "green", "outside": "red", "fitted": ""}
    console.print(
        table(
            "Smart Scheduler",
            ["row", "statement", ">paper", ">ours", "accepted", ""],
            [
                (
                    r.row,
                    r.statement,
                    r.paper,
                    f"{r.ours:.3f}",
                    f"{r.low:.3g} .. {r.high:.3g}",
                    Text(r.verdict, colours[r.verdict]),
                )
                for r in rows
            ],
        )
    )
    for r in rows:
        if r.verdict == "outside" and r.cause:
            console.print(f"{r.statement}: {r.cause}")
    for parameter, row in FITTED.items():
        console.print(f"fitted: {parameter} to {row}")
    speed = timings()
    console.print(
        f"LinUCB decides in {speed['decision_us']:.1f} us; {speed['epochs_per_s']:.0f} simulated "
        f"epochs per second and core, {speed['env_epochs_per_s']:.0f} through the environment"
    )
    judged = [r for r in rows if r.verdict != "fitted"]
    console.print(f"{sum(r.verdict == 'inside' for r in judged)} of {len(judged)} rows inside")
    if out:
        report = {
            "command": command_line(),
            "version": __version__,
            "machine": describe_machine(),
            "seeds": seeds,
            "fitted": FITTED,
            "rows": [r.as_dict() for r in rows],
            **asdict(comparison),
            "pictures": pictures,
            "timings": speed,
        }
        write_atomically(out / "threads.json", json.dumps(report, indent=1) + "\n")
        for path in draw(pictures, out):
            console.print(f"written to {path}")
