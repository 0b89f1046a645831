"""The commands of this floor: agents that learn, and act on a live process."""

from __future__ import annotations

import typer

from pmoss_agents.cli import exporting, listing, threads, training

commands = typer.Typer()
listing.agents.command()(exporting.export)
commands.add_typer(listing.agents, name="agents", rich_help_panel="Agents")
commands.command(rich_help_panel="Agents")(training.train)
commands.command(rich_help_panel="Agents")(training.export)
commands.command(rich_help_panel="This host")(threads.threads)
