"""`pmoss benchmark imitation`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark.options import out_file
from pmoss_env.cli.console import Stages, console
from pmoss_env.cli.pairs import pairs


def imitation(
    task: Annotated[
        str, typer.Option(help="A committed task of spatial scheduling.")
    ] = "skylake-x-8n-btree-ycsb-a",
    tier: Annotated[str, typer.Option(help="Of the data.")] = "mixed",
    episodes_of_data: Annotated[
        int | None, typer.Option(help="Episodes of the data instead of the tier's.", min=2)
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="CPU seconds of training in this call.", min=0.0)
    ] = 3600.0,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="field=value of a new network's config; repeatable."),
    ] = None,
    episodes: Annotated[
        int, typer.Option(help="Of the evaluation at each wanted return; 0: none.", min=0)
    ] = 10,
    checkpoint: Annotated[
        Path, typer.Option(help="Where the network is kept; its log lies beside it.")
    ] = Path("runs/imitation/paper.safetensors"),
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or ~/.pmoss/datasets."),
    ] = None,
    out: Annotated[
        Path | None, out_file("JSON file of the results; what was played lies beside it.")
    ] = None,
) -> None:
    """Train the paper's own network, and say how far it is from what can be learned.

    The same command goes on from the checkpoint, after the time is up, Ctrl-C or a kill.

    Example: pmoss benchmark imitation --seconds 600
    Example: pmoss benchmark imitation --seconds 0 --out runs/imitation.json
    """
    from pmoss_benchmarks.spatial.imitation import best_of, imitate, play, recipe_of, report_of
    from pmoss_datasets.catalog import default_root
    from pmoss_datasets.evaluation import write_results
    from pmoss_datasets.suite import obtain
    from pmoss_env.errors import DescriptionError
    from pmoss_env.files import write_atomically
    from pmoss_env.provenance import provenance

    if not (seconds > 0 or checkpoint.exists()):
        raise DescriptionError(f"{checkpoint}: is no checkpoint yet, and --seconds is 0")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    log = checkpoint.with_suffix(".jsonl")
    recipe = recipe_of(task, tier, episodes_of_data)
    with Stages() as progress:
        dataset = obtain(
            recipe,
            (data or default_root()) / recipe.id,
            lambda done, total: progress("data", done, total),
        )
        agent = imitate(
            dataset,
            checkpoint,
            log,
            seconds=seconds,
            changes=pairs(changes),
            progress=lambda done, total: progress("updates", done, total),
        )
        played = None
        if episodes:
            agent = best_of(agent, checkpoint)
            played = play(
                agent,
                dataset,
                episodes,
                lambda done, total: progress("episodes", done, total),
            )
    found = report_of(agent, dataset, log, played)
    best, last = found["bound"], found["curve"][-1]
    console.print(
        f"{last['update']} of {agent.config.updates} updates, {last['cpu_seconds']:.0f} CPU s: "
        f"accuracy {last['accuracy']:.3f}, at best {best['accuracy']:.3f}; loss "
        f"{last['loss']:.3f}, at best {best['loss']:.3f}"
    )
    if out is not None:
        settings = {"task": task, "tier": tier, "episodes_of_data": len(dataset)}
        code = ["pmoss_benchmarks.spatial.imitation", "pmoss_agents.spatial.decision_transformer"]
        report = {**provenance(code), "settings": settings, **found}
        write_atomically(out, json.dumps(report, indent=1) + "\n")
        if played:
            write_results(out.with_name(f"{out.stem}.played.jsonl"), played, compact=True)
        console.print(f"written to {out}")
