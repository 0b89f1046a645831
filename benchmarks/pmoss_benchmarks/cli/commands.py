"""The commands of this floor: studies, benchmarks, the leaderboard and the texts made of them."""

from __future__ import annotations

import typer

from pmoss_agents.cli.evaluation import REPLAYS
from pmoss_benchmarks.cli import access_path, leaderboard, rechecks, report, study
from pmoss_env.cli.lazy import LazyTyper

benchmark = LazyTyper(
    "pmoss_benchmarks.cli.benchmark.commands",
    help="Measure what this project publishes.",
    no_args_is_help=True,
)

REPLAYS[".json"] = rechecks.recheck_report

commands = typer.Typer()
commands.add_typer(study.app, name="study", rich_help_panel="Benchmarks")
commands.add_typer(benchmark, name="benchmark", rich_help_panel="Benchmarks")
commands.add_typer(access_path.app, name="access-path", rich_help_panel="Benchmarks")
commands.add_typer(leaderboard.app, name="leaderboard", rich_help_panel="Benchmarks")
commands.command(rich_help_panel="Benchmarks")(leaderboard.submit)
commands.command(rich_help_panel="Benchmarks")(report.report)
