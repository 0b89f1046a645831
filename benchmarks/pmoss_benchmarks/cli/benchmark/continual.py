"""`pmoss benchmark continual`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import verdict
from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.pairs import pairs


def continual(
    drift: Annotated[
        list[str] | None, typer.Option(help="Family of drift; repeatable; default: jobs.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Of the comparison; repeatable; default: all.")
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(help="Checkpoint of a learned agent that plays along; repeatable."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("-e", "--env", metavar="<key>=<value>", help="Argument of the environment."),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes that all policies meet.")] = 30,
    tuning: Annotated[int, typer.Option(min=1, help="Episodes for each choice of a grid.")] = 4,
    tuning_epochs: Annotated[int, typer.Option(min=1, help="Epochs of these.")] = 40,
    as_tuned: Annotated[
        Path | None,
        typer.Option(help="A report of the same drift: policies are as tuned for it, not anew."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="A report of the same settings: its rows are kept, not played anew."),
    ] = None,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """What the best opponent leaves to the law oracle where a running index drifts.

    Example: pmoss benchmark continual --drift jobs --episodes 30
    Example: pmoss benchmark continual --drift memory -e machine=milan-nps4 --out runs/memory.json
    Example: pmoss benchmark continual --agent runs/forecaster.safetensors --out runs/jobs.json
    Example: pmoss benchmark continual --keep runs/jobs.json --agent runs/other.safetensors
    """
    from pmoss_benchmarks.continual.games import HeadroomOptions
    from pmoss_benchmarks.continual.headroom import THRESHOLD, compare

    arguments: dict[str, Any] = {"noise": 1.0, **pairs(env)}
    options = HeadroomOptions(arguments, episodes, tuning, tuning_epochs)
    with progress_bar("playing") as bar:
        found = compare(
            drift or ["jobs"],
            options,
            policies=policy,
            agents=agent or (),
            tuned=as_tuned,
            keep=keep,
            out=out,
            processes=processes,
            progress=bar,
        )
    for task in found:
        console.print(
            table(
                f"{task['drift']}: {episodes} paired episodes",
                ["policy", ">million queries", ">% of law oracle", "95 %"],
                [
                    (
                        name,
                        f"{row['mean']:.0f}",
                        f"{100 * row['share_of_law']['value']:.1f}",
                        _interval(row["share_of_law"]),
                    )
                    for name, row in sorted(
                        {**task["policies"], **task["agents"]}.items(),
                        key=lambda pair: pair[1]["mean"],
                    )
                ],
            )
        )
        console.print(
            f"{task['best']} leaves {task['headroom']['value']:.1%} to the law oracle; at least "
            f"{THRESHOLD:.0%}:",
            verdict(task["standard"]),
        )
        for name, row in task["agents"].items():
            closed = row["gap_closed"]
            console.print(
                f"{name}: closes {closed['value']:.0%} {_interval(closed)} of what {task['best']} "
                "leaves"
            )
    if out:
        console.print(f"written to {out}; settings: {asdict(options)}")


def _interval(share: dict[str, Any]) -> str:
    if share["low"] is None:
        return ""
    return f"[{100 * share['low']:.1f}, {100 * share['high']:.1f}]"
