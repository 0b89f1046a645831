"""`pmoss benchmark generalist`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish
from pmoss_env.cli.console import console, progress_bar, table
from pmoss_env.cli.pairs import pairs


def generalist(
    learn: Annotated[
        list[str] | None,
        typer.Option(help="Task to learn from; repeatable; default: all development tasks."),
    ] = None,
    made_up: Annotated[
        int, typer.Option(min=0, help="Worlds of made-up machines to learn from, beside these.")
    ] = 0,
    made_up_episodes: Annotated[int, typer.Option(min=4, help="Of the data of each of them.")] = 40,
    task: Annotated[
        list[str] | None, typer.Option(help="Task to play; repeatable; default: all but the toy.")
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="In what worlds differ from a task; repeatable; default: the unseen."),
    ] = None,
    tier: Annotated[str, typer.Option(help="Of the data.")] = "mixed",
    episodes: Annotated[int, typer.Option(min=1, help="Of each world.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of training.")] = 0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="field=value of the surrogate's config.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or its default.")
    ] = None,
    keep: Annotated[Path, typer.Option(help="Folder of the checkpoint.")] = Path("runs/generalist"),
    references: Annotated[Path | None, typer.Option(help="Rows of the study references.")] = None,
    processes: shared.Processes = 1,
    out: shared.Out = None,
) -> None:
    """Learn one checkpoint from many tasks, and let it play on all tasks and in unseen worlds.

    Example: pmoss benchmark generalist --episodes 8 --set updates=300
    """
    from pmoss_benchmarks.spatial.generalist import GeneralistOptions, play, worlds
    from pmoss_benchmarks.spatial.generalist import learn as learn_once
    from pmoss_datasets.catalog import default_root
    from pmoss_datasets.suite import TOY, task_names

    options = GeneralistOptions(
        learned_on=tuple(learn or ()),
        made_up=made_up,
        made_up_episodes=made_up_episodes,
        tier=tier,
        episodes=episodes,
        seed=seed,
        changes=pairs(changes),
        folder=str(data or default_root()),
        keep=str(keep),
        references=None if references is None else str(references),
    )
    tasks = tuple(task or (name for name in task_names() if name != TOY))
    unseen = ("unseen-workload", "unseen-distribution", "unseen-machine")
    cells = worlds(tasks, tuple(track or ("same-task", *unseen)))
    with progress_bar("learning") as bar:
        learn_once(options, lambda _, done, total: bar(done, total))
    work = partial(play, options)
    results = finish(work, cells, options.settings, out, processes, "generalist")
    rows = []
    for found in results:
        scores = {name: one["score"]["value"] for name, one in found["policies"].items()}
        rule = found["best_rule"]
        rows.append(
            (
                found["task"],
                found["track"],
                "yes" if found["learned"] else "no",
                f"{scores['surrogate']:.1f}",
                f"{rule} {scores[rule]:.1f}",
            )
        )
    columns = ["task", "track", "learned on", ">surrogate", "best rule"]
    console.print(table("One checkpoint in many worlds", columns, rows))
