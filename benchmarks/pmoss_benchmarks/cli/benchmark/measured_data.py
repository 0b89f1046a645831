"""`pmoss benchmark measured-data`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli.benchmark import options as shared
from pmoss_benchmarks.cli.benchmark.running import finish
from pmoss_env.cli.console import console, table
from pmoss_env.cli.pairs import pairs


def measured_data(
    data: Annotated[Path, typer.Argument(help="Folder or id of a dataset measured on this host.")],
    blocks: Annotated[int, typer.Option(min=1, help="Of five episodes for all policies.")] = 8,
    modelled: Annotated[int, typer.Option(min=4, help="Episodes of the model's data.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Of training and episodes.")] = 0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="field=value of the surrogate's config.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder of checkpoints; default: runs/measured-data.")
    ] = None,
    out: shared.Out = None,
) -> None:
    """What data measured on this host are worth here: train on them, and re-schedule its index.

    Learners see all measured schedules, a few of them, the analytic model of this host, or the
    model and a few. Rules and staying meet the same episodes.

    Example: pmoss collect runs/host --backend hardware --tier measured -e slices=32
    Example: pmoss benchmark measured-data runs/host --out runs/measured.json
    """
    import pmoss_datasets
    from pmoss_benchmarks.spatial.measured_data import (
        Block,
        MeasuredOptions,
        check_data,
        measure_block,
        ratios,
        throughputs,
        train_learners,
    )

    dataset = pmoss_datasets.load(str(data))
    check_data(dataset)
    folder = keep or Path("runs/measured-data")
    folder.mkdir(parents=True, exist_ok=True)
    options = MeasuredOptions(
        str(dataset.path), str(folder), modelled, seed=seed, changes=pairs(changes)
    )
    with console.status("training") as status:
        agents = train_learners(options, lambda name: status.update(f"training {name}"))
    settings = {
        "data": dataset.id,
        "checksum": dataset.checksum,
        "measured": len(dataset),
        "modelled": modelled,
        "episodes": options.episodes,
        "seed": seed,
        "changes": dict(options.changes),
    }
    cells = finish(
        partial(measure_block, options, agents),
        [Block(number) for number in range(blocks)],
        settings,
        out,
        1,
        "measured-data",
    )
    over = ("incumbent", "lpt", "lpt-capacity")
    of, means = ratios(cells, over), throughputs(cells)
    rows = [
        (name, f"{means[name].mean():.3f}", *(_ratio(of[name][other]) for other in over))
        for name in sorted(of, key=lambda name: -means[name].mean())
    ]
    title = f"{dataset.id}, {means['lpt'].size} episodes on this host"
    console.print(table(title, ["", ">Mq/s", *(f">/ {other}" for other in over)], rows))


def _ratio(one: dict[str, float | None]) -> str:
    spread = "" if one["low"] is None else f" [{one['low']:.3f}, {one['high']:.3f}]"
    return f"{one['value']:.3f}{spread}"
