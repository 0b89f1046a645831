"""The commands of this floor: what there is, and what this host serves."""

from __future__ import annotations

import typer

from pmoss_env.cli import catalogs, doctor, indexes, load, measure

commands = typer.Typer()
commands.add_typer(catalogs.machines, name="machines", rich_help_panel="Environments")
commands.command(rich_help_panel="Environments")(catalogs.workloads)
commands.command(rich_help_panel="Environments")(catalogs.envs)
commands.command("check-index", rich_help_panel="Environments")(indexes.check_index)
commands.command(rich_help_panel="Environments")(indexes.record)
commands.command(rich_help_panel="This host")(doctor.doctor)
commands.command(rich_help_panel="This host")(measure.measure)
commands.command(rich_help_panel="This host")(load.load)
