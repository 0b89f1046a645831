"""The commands of this floor: agents that learn, play, are compared, and act on this host."""

from __future__ import annotations

import typer

from pmoss_agents.cli import (
    autopilot,
    demo,
    evaluation,
    explain,
    exporting,
    listing,
    rollout,
    threads,
    training,
)

commands = typer.Typer()
listing.agents.command()(exporting.export)
commands.command(rich_help_panel="Start")(demo.demo)
commands.add_typer(listing.agents, name="agents", rich_help_panel="Agents")
commands.command(rich_help_panel="Agents")(training.train)
commands.command(rich_help_panel="Agents")(training.export)
commands.command(rich_help_panel="Agents")(evaluation.evaluate)
commands.command(rich_help_panel="Agents")(rollout.rollout)
commands.command(rich_help_panel="Agents")(explain.explain)
commands.command(rich_help_panel="Benchmarks")(evaluation.validate)
commands.command(rich_help_panel="This host")(threads.threads)
commands.command(rich_help_panel="This host")(autopilot.autopilot)
