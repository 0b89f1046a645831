"""`pmoss benchmark budget`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, progress_bar
from pmoss_env.cli.output import check_output


def budget(
    suite: Annotated[str, typer.Option(help="Its tasks of spatial scheduling.")] = "core",
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task of the suite's; repeatable.")
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="A name from `pmoss agents list`, trained as the offline benchmark does, or "
            "NAME=FILE with {task} and {seed} in the path of a checkpoint; repeatable; default: "
            "none."
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Of each task.", min=1)] = 100,
    noise: Annotated[
        list[float] | None, typer.Option(help="Strength; repeatable; default: 0 and 1.")
    ] = None,
    most: Annotated[
        int, typer.Option(help="Largest budget of agents, which may take long for each.", min=1)
    ] = 10,
    seeds: Annotated[int, typer.Option(help="Of training, of each agent.", min=1)] = 1,
    references: Annotated[
        Path, typer.Option(help="Folder of `pmoss benchmark references`; missing ones are made.")
    ] = Path("runs/references"),
    processes: Annotated[int, typer.Option(help="Worker processes.", min=1)] = 1,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or ~/.pmoss/datasets."),
    ] = None,
    agents_folder: Annotated[
        Path | None,
        typer.Option("--agents", help="Trained agents are kept here; default: OUT/agents."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("runs/budget"),
) -> None:
    """Show rules, searches and agents at 0 to 2,000 measurements of each episode's backend.

    Interrupted or killed, the same command goes on. README.md in OUT has the tables.

    Example: pmoss benchmark budget --suite quick --episodes 2
    """
    from pmoss_benchmarks.offline import load_suite
    from pmoss_benchmarks.spatial.budget import run_budget
    from pmoss_benchmarks.spatial.budget.agents import Agents, parse_agents
    from pmoss_benchmarks.spatial.budget.report import write_report
    from pmoss_benchmarks.spatial.references import make_references
    from pmoss_datasets.catalog import default_root
    from pmoss_env.extras import require

    require("matplotlib")
    check_output(out, folder=True)
    plan = load_suite(suite).part(tasks=task)
    names, files = parse_agents(agent or [])
    folder = agents_folder or out / "agents"
    give = Agents(plan, data or default_root(), folder, files)
    with progress_bar("budgets") as progress:
        rows = run_budget(
            out,
            plan.tasks,
            episodes=episodes,
            noises=noise or (0.0, 1.0),
            agents=names,
            make_agents=give,
            identity=give.identity,
            seeds=seeds,
            most=most,
            processes=processes,
            progress=progress,
        )
    with progress_bar("references") as progress:
        known = make_references(
            references, plan.tasks, 101, episodes, processes=processes, progress=progress
        )
    write_report(out, rows, known)
    console.print(f"written to {out}")
