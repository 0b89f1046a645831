"""The commands of this layer: data to learn from."""

from __future__ import annotations

import typer

from pmoss_datasets.cli import datasets, exporting, original, worlds
from pmoss_env.cli.listing import KINDS

KINDS["datasets"] = datasets.list_datasets

data = typer.Typer()
data.command()(datasets.collect)
data.command()(datasets.build)
data.command()(datasets.verify)
data.command()(datasets.convert)
data.command()(exporting.export)
data.command("import-original")(original.import_original)
data.command()(worlds.worlds)

commands = typer.Typer()
commands.add_typer(data, name="data", rich_help_panel="Data")
