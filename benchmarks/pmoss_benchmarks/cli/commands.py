"""The commands of this floor: measuring, comparing, explaining, and replaying results."""

from __future__ import annotations

import typer

from pmoss_benchmarks.cli import (
    access_path,
    autopilot,
    demo,
    doctor,
    evaluation,
    explain,
    leaderboard,
    load,
    measure,
    report,
    rollout,
    study,
)
from pmoss_env.cli.lazy import LazyTyper

benchmark = LazyTyper(
    "pmoss_benchmarks.cli.benchmark.commands",
    help="Measure what this project publishes.",
    no_args_is_help=True,
)

commands = typer.Typer()
commands.command(rich_help_panel="Start")(demo.demo)
commands.command(rich_help_panel="Agents")(evaluation.evaluate)
commands.command(rich_help_panel="Agents")(rollout.rollout)
commands.command(rich_help_panel="Agents")(explain.explain)
commands.add_typer(study.app, name="study", rich_help_panel="Benchmarks")
commands.add_typer(benchmark, name="benchmark", rich_help_panel="Benchmarks")
commands.command(rich_help_panel="Benchmarks")(evaluation.validate)
commands.add_typer(access_path.app, name="access-path", rich_help_panel="Benchmarks")
commands.add_typer(leaderboard.app, name="leaderboard", rich_help_panel="Benchmarks")
commands.command(rich_help_panel="Benchmarks")(leaderboard.submit)
commands.command(rich_help_panel="Benchmarks")(report.report)
commands.command(rich_help_panel="This host")(doctor.doctor)
commands.command(rich_help_panel="This host")(measure.measure)
commands.command(rich_help_panel="This host")(load.load)
commands.command(rich_help_panel="This host")(autopilot.autopilot)
