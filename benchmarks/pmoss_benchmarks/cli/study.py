"""`pmoss study`: what this project publishes, run, shown and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_datasets.cli.datasets import Address, Executor
from pmoss_env.cli.console import AsJson, Stages, console, show_json, show_rows, table
from pmoss_env.cli.pairs import SetOption, pairs

if TYPE_CHECKING:
    from pmoss_benchmarks.study.description import Study
    from pmoss_benchmarks.study.store import Results, StoredStudy

app = typer.Typer(no_args_is_help=True, help="Studies: policies and models in many worlds.")

Name = Annotated[
    str, typer.Argument(metavar="STUDY", help="Name, STUDY/VARIANT, or a description of your own.")
]
Root = Annotated[
    Path | None, typer.Option(help="Checkout; default: the one around the current folder.")
]
Data = Annotated[
    Path | None, typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or its default.")
]
Keep = Annotated[Path, typer.Option(help="Folder of checkpoints that cells share.")]
KEEP = Path("runs/studies/kept")


def _results(root: Path | None) -> Results:
    from pmoss_benchmarks.study.store import Results, find_root

    return Results(find_root((root or Path.cwd()).resolve()))


def _folders(results: Results, data: Path | None, keep: Path) -> dict[str, Path]:
    from pmoss_datasets.catalog import default_root

    return {"data": data or default_root(), "keep": keep, "results": results.folder}


def _stored(results: Results, study: Study, rows: Path | None) -> StoredStudy:
    """The rows of a file, or the committed ones; of an own description those that it made."""
    from pmoss_benchmarks.study.store import read_stored
    from pmoss_env.errors import DatasetError

    if rows is None and study.path.resolve().parent == results.descriptions.resolve():
        return results[study.name]
    if rows is None:
        rows = _own_rows(study)
        if not rows.exists():
            raise DatasetError(f"{rows}: is not there: `pmoss study run {study.path}` makes it")
    stored = read_stored(rows)
    if stored.study != study.name:
        raise DatasetError(f"{rows}: holds rows of the study {stored.study}, not of {study.name}")
    return stored


def _own_rows(study: Study) -> Path:
    """Where the rows of a study lie that a command makes."""
    from pmoss_benchmarks.study.store import file_of

    return file_of(Path("runs/studies"), study.name)


@app.command("list")
def list_studies(root: Root = None, as_json: AsJson = False) -> None:
    """List the studies, what they answer, and where their stored rows come from.

    Example: pmoss study list
    """
    results = _results(root)
    rows = []
    for name, study in results.studies.items():
        stored = results[name] if name in set(results) else None
        runs = list(stored.runs.values()) if stored else []
        rows.append(
            (
                name,
                study.title,
                len(stored.rows) if stored else 0,
                " ".join(sorted({run.get("date", "") for run in runs})),
                " ".join(sorted({run["version"] for run in runs})),
                ", ".join(sorted({run["machine"]["cpu_model"] for run in runs})),
            )
        )
    columns = ["study", "title", ">rows", "date", "version", "processor"]
    show_rows("Studies", columns, rows, as_json)


@app.command()
def run(
    name: Name,
    small: Annotated[
        bool,
        typer.Option(
            "--small", help="The study's small settings, not a variant's: about a minute."
        ),
    ] = False,
    changes: SetOption = None,
    other_code: Annotated[
        bool, typer.Option("--other-code", help="Go on beside rows that other code made.")
    ] = False,
    executor: Executor = "processes",
    processes: Annotated[
        int | None,
        typer.Option("--processes", "-j", help="Cells at a time; default: 1, with ray all CPUs."),
    ] = None,
    address: Address = None,
    data: Data = None,
    keep: Keep = KEEP,
    out: Annotated[
        Path | None, typer.Option(help="File of the rows; default: runs/studies/STUDY.jsonl.")
    ] = None,
    root: Root = None,
) -> None:
    """Do the cells of a study that the file lacks, and show its table.

    Interrupted or killed, the same command goes on. With slurm, --processes is the number of jobs,
    and sbatch's environment variables, such as SBATCH_PARTITION, say where they run. A job that is
    killed costs the cell that it was doing, which another job does again.

    Example: pmoss study run headroom --small
    Example: pmoss study run core --executor slurm --processes 64
    """
    from pmoss_benchmarks.study.runner import run_study
    from pmoss_datasets.executors import at_once
    from pmoss_env.cli.output import check_output

    results = _results(root)
    study = results.study(name)
    path = out or _own_rows(study)
    check_output(path)
    with Stages() as progress:
        stored = run_study(
            study,
            path,
            **_folders(results, data, keep),
            changes=pairs(changes),
            small=small,
            allow_other_code=other_code,
            executor=executor,
            processes=at_once(processes, executor),
            address=address,
            progress=progress,
        )
    _show(study, stored)
    console.print(f"{len(stored.rows)} rows in {path}", highlight=False, soft_wrap=True)


@app.command()
def show(
    name: Name,
    rows: Annotated[
        Path | None,
        typer.Option(
            help="File of rows; default: the committed ones, or those of your description."
        ),
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Show the tables of a study, and what made its rows.

    Example: pmoss study show headroom
    """
    results = _results(root)
    study = results.study(name)
    stored = _stored(results, study, rows)
    if as_json:
        show_json([dict(row) for row in stored.rows])
        return
    _show(study, stored)
    for made in stored.runs.values():
        words = [made.get("date", ""), made["version"], made["machine"]["cpu_model"]]
        console.print(f"{', '.join(filter(None, words))}: {made['command']}", soft_wrap=True)


@app.command()
def replay(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY...", help="Studies, or files of `pmoss evaluate`, or checkpoints."
        ),
    ],
    share: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Of a study's rows, evenly spread, at least one; default: all."
        ),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            help="File of rows; default: the committed ones, or those of your description."
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Of each file: replay so many; default: all.")
    ] = None,
    data: Data = None,
    keep: Keep = KEEP,
    root: Root = None,
) -> None:
    """Make stored rows again, and compare them to the last bit.

    Ends with status 1 where a value differs, or a row is damaged.

    Example: pmoss study replay headroom --share 0.1

    Example: pmoss study replay runs/demo/results.jsonl

    Example: pmoss study replay runs/iql.safetensors
    """
    from pmoss_agents.cli.evaluation import replay_files

    files = [name for name in names if _is_result(Path(name))]
    if episodes is not None and not files:
        raise typer.BadParameter("applies to files; a study has --share", param_hint="--episodes")
    for option, value in (("--share", share), ("--rows", rows), ("--root", root)):
        if len(files) == len(names) and value is not None:
            raise typer.BadParameter("applies to studies, not to files", param_hint=option)
    equal = replay_files([Path(name) for name in files], episodes, data)
    for name in names:
        if name not in files:
            equal &= _replay(name, 1.0 if share is None else share, rows, data, keep, root)
    if not equal:
        raise typer.Exit(1)


def _is_result(path: Path) -> bool:
    endings = (".json", ".jsonl", ".safetensors")
    return path.suffix in endings or (path.is_file() and path.suffix != ".toml")


def _replay(
    name: str, share: float, rows: Path | None, data: Path | None, keep: Path, root: Path | None
) -> bool:
    """Replays a study; returns whether all values are equal."""
    from pmoss_benchmarks.study.runner import replay_study
    from pmoss_env.result_files import damaged_rows

    results = _results(root)
    study = results.study(name)
    stored = _stored(results, study, rows)
    with Stages() as progress:
        differences = replay_study(
            study, stored, **_folders(results, data, keep), share=share, progress=progress
        )
    for line in differences:
        console.print(line, highlight=False, soft_wrap=True)
    damaged = damaged_rows(stored.path)
    lost = f"; damaged rows: {damaged}" if damaged else ""
    console.print(f"{stored.path}: {len(differences)} values differ{lost}", soft_wrap=True)
    return not differences and not damaged


@app.command()
def stale(root: Root = None, as_json: AsJson = False) -> None:
    """List studies whose rows are missing, or older than the code that makes them.

    A row names the code that made it by digests. Neither git nor the time of a file is asked.

    Example: pmoss study stale
    """
    from pmoss_benchmarks.study.runner import is_stale

    results = _results(root)
    stored = set(results)
    reasons = {
        name: is_stale(study, results[name]) if name in stored else "has no rows"
        for name, study in results.studies.items()
    }
    shown: list[Any] = [(name, reason) for name, reason in reasons.items() if reason]
    show_rows("Studies to be run anew", ["study", "reason"], shown, as_json)


def _show(study: Study, stored: Any) -> None:
    from pmoss_benchmarks.study.tables import make_table, table_names

    for name in table_names(study):
        made = make_table(study, stored, name)
        title = study.title if name == "default" else f"{study.title}: {name}"
        console.print(table(title, made.columns, made.rows))
