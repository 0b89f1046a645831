"""The commands of this layer: agents that learn, play, are compared, and act on this host."""

from __future__ import annotations

from pathlib import Path

import typer

from pmoss_agents.cli import (
    autopilot,
    browsing,
    demo,
    evaluation,
    explain,
    listing,
    rollout,
    threads,
    training,
)
from pmoss_datasets.cli import exporting
from pmoss_env.cli.listing import KINDS


def _export_agent(name: str, out: Path) -> Path:
    from pmoss_agents.hub import export

    return export(name, out)


KINDS["agents"] = listing.list_agents
exporting.export_agent[:] = [_export_agent]

run = typer.Typer()
run.command()(rollout.rollout)
run.command()(autopilot.autopilot)
run.command()(threads.threads)

data = typer.Typer()
data.command()(browsing.browse)

commands = typer.Typer()
commands.command(rich_help_panel="Start")(demo.demo)
commands.command(rich_help_panel="Agents")(training.train)
commands.command(rich_help_panel="Agents")(evaluation.evaluate)
commands.command(rich_help_panel="Agents")(explain.explain)
commands.add_typer(data, name="data", rich_help_panel="Data")
commands.add_typer(run, name="run", rich_help_panel="This host")
