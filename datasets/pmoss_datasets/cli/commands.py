"""The commands of this floor: data to learn from."""

from __future__ import annotations

import typer

from pmoss_datasets.cli import datasets, exporting, original

commands = typer.Typer()
commands.command(rich_help_panel="Datasets")(datasets.collect)
commands.command("import-original", rich_help_panel="Datasets")(original.import_original)
datasets.datasets.command()(exporting.export)
commands.add_typer(datasets.datasets, name="datasets", rich_help_panel="Datasets")
