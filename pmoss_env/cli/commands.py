"""The commands of this layer: what there is, and what this host serves."""

from __future__ import annotations

import typer

from pmoss_env.cli import doctor, importing, indexes, listing, load, measure

data = typer.Typer(help="Offline datasets and machines: collect, build, verify, convert, share.")
data.command("import-machine")(importing.import_machine)
index = typer.Typer(help="Indexes of yours: check one, and record it for the models.")
index.command("check")(indexes.check_index)
index.command("record")(indexes.record)
run = typer.Typer(help="Act on a running system, on this host or on a model.")
run.command("load")(load.load)

commands = typer.Typer()
commands.command("list", rich_help_panel="Start")(listing.list_)
commands.add_typer(data, name="data", rich_help_panel="Data")
commands.command(rich_help_panel="This host")(doctor.doctor)
commands.command(rich_help_panel="This host")(measure.measure)
commands.add_typer(index, name="index", rich_help_panel="This host")
commands.add_typer(run, name="run", rich_help_panel="This host")
