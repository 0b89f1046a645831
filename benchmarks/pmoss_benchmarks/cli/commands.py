"""The commands of this floor: studies, the leaderboard and the texts made of them."""

from __future__ import annotations

import typer

from pmoss_benchmarks.cli import leaderboard, pretrained, report, study

study.app.command()(leaderboard.submit)
study.app.command()(leaderboard.leaderboard)
dev = typer.Typer(no_args_is_help=True, help="Upkeep: texts, shipped agents, rounds.")
dev.command()(report.report)
dev.command()(pretrained.pretrained)
dev.command("round")(leaderboard.round_)
dev.command()(leaderboard.play)

commands = typer.Typer()
commands.add_typer(study.app, name="study", rich_help_panel="Agents")
commands.add_typer(dev, name="dev", rich_help_panel="Upkeep")
