"""The commands of `pmoss`."""

from __future__ import annotations

import typer

from pmoss_env import __version__
from pmoss_env.cli import (
    access_path,
    benchmark,
    catalogs,
    datasets,
    doctor,
    explain,
    learning,
    measure,
    rollout,
    threads,
)

app = typer.Typer(
    name="pmoss",
    help="Learn, share and measure placement: which core serves which part of an index.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pmoss {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Learn, share and measure placement: which core serves which part of an index."""


app.command()(learning.demo)
app.command()(doctor.doctor)
app.add_typer(catalogs.machines, name="machines")
app.command()(catalogs.workloads)
app.command()(catalogs.envs)
app.command()(measure.measure)
app.command()(rollout.rollout)
app.command()(threads.threads)
app.command()(threads.load)
app.command()(datasets.collect)
app.command("import-original")(datasets.import_original)
app.add_typer(datasets.datasets, name="datasets")
app.command()(learning.train)
app.command()(learning.export)
app.command()(learning.evaluate)
app.command()(learning.validate)
app.command()(explain.explain)
app.add_typer(access_path.app, name="access-path")
app.add_typer(benchmark.app, name="benchmark")
