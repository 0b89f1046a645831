"""`pmoss benchmark autopilot`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish, verdict
from pmoss_env.cli.console import console, table
from pmoss_env.cli.pairs import pairs

#: Null trials of a part: an interruption costs no more.
_TRIALS = 50


def autopilot(
    agent: Annotated[
        str, typer.Option(help="A policy of the domain continual, pace, or module:Class.")
    ] = "pace",
    blocks: Annotated[int, typer.Option(min=0, help="In each, every side serves once.")] = 10,
    phases: Annotated[
        int, typer.Option(min=1, help="Of ten seconds, for each side of a block.")
    ] = 4,
    trials: Annotated[
        int, typer.Option(min=0, help="Of a schedule against itself, in parts of 50.")
    ] = 1000,
    epoch_seconds: Annotated[float, typer.Option(min=0.1, help="Length of an epoch.")] = 0.3125,
    env: Annotated[
        list[str] | None,
        typer.Option("-e", "--env", metavar="<key>=<value>", help="Argument of the environment."),
    ] = None,
    out: shared.Out = None,
) -> None:
    """What the loop of `pmoss run autopilot` is worth here, and how often it keeps a null change.

    A co-tenant takes half of a core and changes cores every ten seconds. Staying, the loop, and a
    schedule that was made for each phase meet it in turn. Nothing else should run on this host: its
    load is shown beside every part. It takes two CPUs.

    Example: pmoss benchmark autopilot --out runs/autopilot.json
    Example: taskset -c 0,1 pmoss benchmark autopilot --trials 0 --blocks 3
    """
    from pmoss_benchmarks.autopilot.comparison import (
        MOST_KEPT,
        Part,
        Plan,
        measure,
        rate_in_words,
        summary,
        usual_env,
    )
    from pmoss_env.errors import DescriptionError

    if not trials and not blocks:
        raise DescriptionError(
            "--trials 0 --blocks 0: nothing is left to measure: ask for trials, blocks or both"
        )
    plan = Plan({**usual_env(epoch_seconds), **pairs(env)}, agent, _TRIALS, phases)
    parts = [
        *(Part("null", number) for number in range(-(-trials // _TRIALS))),
        *(Part("block", number) for number in range(blocks)),
    ]
    settings = {"env": plan.env, "agent": agent, "trials": _TRIALS, "phases": phases}
    cells = finish(partial(measure, plan), parts, settings, out, 1, "autopilot")
    result = summary(cells)
    rows = []
    if "null" in result:
        null = result["null"]
        kept = f"{null['kept']} of {null['trials']:,}: {rate_in_words(null)}"
        wanted = null["rate"] < MOST_KEPT
        rows.append(("null changes kept", kept, "", f"< {MOST_KEPT:.0%}", verdict(wanted)))
    for name, words in (("made", "a schedule for each phase"), ("stay", "staying")):
        if name in result:
            ratio = result[name]
            spread = "" if ratio["low"] is None else f" [{ratio['low']:.3f}, {ratio['high']:.3f}]"
            rows.append(
                (
                    f"autopilot / {words}",
                    f"{ratio['ratio']:.3f}{spread}",
                    f"{ratio['least']:.3f} to {ratio['most']:.3f}",
                    f">= {ratio['goal']:g}",
                    verdict(ratio["ratio"] >= ratio["goal"]),
                )
            )
    low, high = result["host_load"]
    title = f"{agent}, {blocks} blocks of {phases} phases; load of the host {low:g} to {high:g}"
    console.print(table(title, ["", ">mean [95 %]", ">of the blocks", "goal", ""], rows))
