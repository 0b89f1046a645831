"""`pmoss rollout`: agents and baselines place slices, on this host or a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pmoss_env.cli.console import console, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs


def rollout(
    checkpoint: Annotated[
        list[Path] | None, typer.Argument(help="Checkpoints of agents that place slices.")
    ] = None,
    baseline: Annotated[
        list[str], typer.Option("--baseline", "-b", help="Baselines beside them; repeatable.")
    ] = ["lpt"],  # noqa: B006  # typer copies it
    backend: Annotated[str, typer.Option(help="hardware, analytic or simulated.")] = "hardware",
    machine: Annotated[str, typer.Option(help="host, or a name from `pmoss machines`.")] = "host",
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", help="key=value of the environment; repeatable."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="key=value of the backend; repeatable."),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Incumbents, the same for every policy.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the episodes.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Result file (.jsonl); if it is there, goes on with it.")
    ] = None,
) -> None:
    """Let policies re-schedule a running index and measure what comes of it.

    Every finished episode is printed, and kept in OUT, at once: an interrupted run goes on.

    Example: pmoss rollout runs/dt.npz -b lpt -e slices=16 -o records=1000000 --out runs/r.jsonl
    """
    from pmoss_env.baselines import make_baseline
    from pmoss_env.evaluation import SchedulePolicy
    from pmoss_env.rollouts import roll_out

    if out:
        check_output(out)
    policies: dict[str, Any] = {name: SchedulePolicy(make_baseline(name)) for name in baseline}
    for path in checkpoint or []:
        import pmoss_agents

        policies[path.stem] = pmoss_agents.load(path)
    arguments = {"backend": backend, "machine": machine, **pairs(env)}
    if options:
        arguments["backend_options"] = pairs(options)

    def show(row: dict[str, Any]) -> None:
        console.print(
            f"episode {row['episode']}  {row['policy']:<22}"
            f"{row['incumbent_mq_per_s']:8.3f} -> {row['final_mq_per_s']:8.3f} Mq/s"
            f"   p99 {row['p99_us']:.0f} us"
        )

    rows = roll_out(arguments, policies, episodes=episodes, seed=seed, out=out, on_row=show)
    summary = []
    for name in policies:
        own = [row for row in rows if row["policy"] == name]
        before = sum(row["incumbent_mq_per_s"] for row in own) / len(own)
        after = sum(row["final_mq_per_s"] for row in own) / len(own)
        summary.append((name, f"{before:.3f}", f"{after:.3f}", f"{after / before:.2f}"))
    console.print(
        table(
            f"{machine}, {backend}: mean of {episodes} episodes",
            ["policy", ">incumbent Mq/s", ">final Mq/s", ">ratio"],
            summary,
        )
    )
