"""`pmoss benchmark offline`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_env.cli.console import Stages, console, table
from pmoss_env.cli.output import check_output

if TYPE_CHECKING:
    from pmoss_benchmarks.offline import Plan


def offline(
    suite: Annotated[
        str,
        typer.Option(
            help="core (an hour on two cores), machines (the paper's five), paper (all its pairs), "
            "standard, quick, or sisters (threads and access paths); or a domain's name, for all "
            "its tasks."
        ),
    ] = "core",
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task of the suite's; repeatable.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Only the suite's tasks of this split: development or held-out."),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="same-task, interference, noise, ...; repeatable; default: the suite's."),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="A name from `pmoss list agents`, module:Class of your own, or opponents (all "
            "that do not learn); repeatable; default: all that are registered."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Runs per agent and task; default: the suite's.", min=1)
    ] = None,
    tier: Annotated[
        str | None, typer.Option(help="Of the data, e.g. heuristic; default: the suite's.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", "-j", help="Cells at a time; default: 1 here, all CPUs with ray (0)."
        ),
    ] = None,
    executor: Annotated[str, typer.Option(help="processes, or ray for a cluster.")] = "processes",
    ray_address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; none: start one here.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or ~/.pmoss/datasets."),
    ] = None,
    references: Annotated[
        Path | None,
        typer.Option(help="Folder of results with the study references; default: OUT."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; default: runs/offline/SUITE[-TIER].")
    ] = None,
) -> None:
    """Train every agent on the same data and let it place what no dataset holds.

    Interrupted or killed, the same command goes on: finished cells are kept in the folder OUT, and
    a command with other agents, tasks or tracks adds to it. README.md there has the tables.

    Example: pmoss benchmark offline --suite quick --agent opponents --agent decision-transformer
    Example: pmoss benchmark offline --suite standard --split held-out
    Example: pmoss benchmark offline --suite threads --agent opponents --agent my_agent:Mine
    """
    from pmoss_benchmarks.offline import load_suite
    from pmoss_datasets.executors import at_once
    from pmoss_datasets.suite import of_split

    plan = load_suite(suite).part(task, track, seeds, tier)
    if split is not None:
        plan = plan.part(of_split(plan.tasks, split))
    play(
        plan,
        out or Path("runs/offline") / "-".join(filter(None, (suite, tier))),
        data,
        agents=agent,
        references=references,
        executor=executor,
        processes=at_once(processes, executor),
        address=ray_address,
    )


def play(plan: Plan, folder: Path, data: Path | None, **how: Any) -> None:
    """Does what is missing of a plan behind a progress bar, and shows what all of it says.

    Args:
        plan: what to do.
        folder: of the results.
        data: folder of datasets; None: where its users expect them.
        **how: as of run_offline().
    """
    from pmoss_benchmarks.offline import run_offline
    from pmoss_benchmarks.offline.plan import usable_agents
    from pmoss_datasets.catalog import default_root

    check_output(folder, folder=True)
    _tell(usable_agents(plan, how.get("agents"))[1])  # before the work, so that one can stop
    with Stages() as progress:
        summary = run_offline(plan, folder, data or default_root(), progress=progress, **how)
    for name, found in summary["tracks"].items():
        # From the lowest to the highest; each agent's last checkpoint, the best one is in the file.
        policies = sorted(found["overall"].items(), key=lambda item: item[1]["iqm"]["value"])
        rows = [
            (policy, *(_with_interval(of[key]) for key in ("iqm", "mean")))
            for policy, of in policies
            if not policy.endswith(" (best)")
        ]
        title = f"Track {name}: scores over {len(found['tasks'])} tasks"
        console.print(table(title, ["policy", ">IQM [95 %]", ">mean [95 %]"], rows))
    console.print(f"written to {folder}")


def _tell(left_out: Mapping[str, str]) -> None:
    """Names the agents that are left out, by the reason."""
    for reason in dict.fromkeys(left_out.values()):
        names = ", ".join(name for name, why in left_out.items() if why == reason)
        console.print(f"left out: {names}: {reason}", highlight=False, soft_wrap=True)


def _with_interval(estimate: dict[str, float | None]) -> str:
    value, low, high = (estimate[key] for key in ("value", "low", "high"))
    return f"{value:.1f}" if low is None else f"{value:.1f} [{low:.1f}, {high:.1f}]"
