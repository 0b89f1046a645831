"""`pmoss data`: data to learn from, and their care."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pmoss_env.cli.console import PlainConsole, console, progress_bar, show_json, show_rows, table
from pmoss_env.cli.listing import Request
from pmoss_env.cli.output import check_output, printable
from pmoss_env.cli.pairs import EnvOption, MachineOption, env_arguments
from pmoss_env.errors import DatasetError, DescriptionError, PmossError

Root = Annotated[
    Path | None, typer.Option(help="Folder of datasets; $PMOSS_DATASETS_PATH or ~/.pmoss/datasets.")
]
Processes = Annotated[
    int | None,
    typer.Option(
        help="At once; the bits are the same for any number. Default: 1 here, all CPUs on a Ray "
        "cluster (0)."
    ),
]
Executor = Annotated[str, typer.Option(help="processes, ray for a cluster, or slurm for its jobs.")]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        "--ray-address",
        help="Of the Ray cluster, none: start one here; of slurm, local: jobs on this host.",
    ),
]
Overwrite = Annotated[bool, typer.Option(help="Replace a dataset that is there.")]
RewardOption = Annotated[
    str | None,
    typer.Option(
        help="Mode of the rewards; for schedules terminal, the default, slice or improvement."
    ),
]
CounterfactualsOption = Annotated[
    bool, typer.Option(help="Also what every other action would have given at each step.")
]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="A policy that the recipe may import; nothing else that it names is. Repeatable.",
    ),
]
DomainOption = Annotated[
    str, typer.Option(help="Which environment: spatial, threads, access-path, or one of others.")
]


def _check_root(root: Path | None) -> None:
    if root is not None and not root.is_dir():
        raise DatasetError(f"--root {root}: is no folder")


class Format(StrEnum):
    """The formats that ``pmoss data convert`` writes."""

    minari = "minari"
    d4rl = "d4rl"


def _refuse(ctx: typer.Context, what: str, names: Iterable[str], why: str) -> None:
    """Raises DescriptionError if any of the named options is given; ``what`` rules them out."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in names
        if (source := ctx.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    if given:
        raise DescriptionError(f"{', '.join(given)} {what}: {why}")


#: Options that a recipe's file decides.
_IN_RECIPES = (
    "domain",
    "env",
    "machine",
    "tier",
    "policy",
    "episodes",
    "seed",
    "counterfactuals",
    "namespace",
    "backend",
)

#: And those of a single policy.
_OF_POLICY = ("argument", "epsilon")


def collect(
    ctx: typer.Context,
    out: Annotated[Path, typer.Argument(help="Folder of the dataset.")],
    policy: Annotated[
        str | None,
        typer.Argument(help="One policy, or module:function, in place of the tier's mixture."),
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="A recipe file (TOML) instead of the options below.")
    ] = None,
    domain: DomainOption = "spatial",
    machine: MachineOption = None,
    env: EnvOption = None,
    tier: Annotated[
        str,
        typer.Option(
            help="random, heuristic, medium, replay, expert or mixed; large and validation, "
            "too, which are more of mixed."
        ),
    ] = "mixed",
    argument: Annotated[
        list[str] | None,
        typer.Option(help="Of the policy's function, such as a checkpoint; repeatable."),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="With a policy: share of actions that are any legal one.")
    ] = 0.0,
    episodes: Annotated[int, typer.Option(help="How many.")] = 300,
    seed: Annotated[int, typer.Option(help="Of everything that chance decides.")] = 0,
    namespace: Annotated[
        str, typer.Option(help="First part of the id: yours where you share the data.")
    ] = "local",
    counterfactuals: CounterfactualsOption = False,
    trust: TrustOption = None,
    processes: Processes = None,
    executor: Executor = "processes",
    address: Address = None,
    overwrite: Overwrite = False,
    backend: Annotated[
        str | None, typer.Option(help="As -e backend=...; hardware measures this host.")
    ] = None,
) -> None:
    """Collect an offline dataset with a mixture of behaviour policies.

    Interrupted or killed, the same command goes on where it stopped: finished episodes wait in
    OUT.partial. A trained agent collects as pmoss_agents:load --argument CHECKPOINT.
    On Ray, a server to be measured declares itself with
    ray start --resources='{"pmoss_server": 1}'. On Slurm it has a node to itself.

    A measured host has no model that a search could ask: such a dataset has no reference scores.

    Example: pmoss data collect runs/data -e machine=milan-nps4 -e load=closed --episodes 100
    Example: pmoss data collect runs/points -e index=rtree -e workload=rtree-ranges-5m
    Example: pmoss data collect runs/threads --domain threads -e requests=400000 --episodes 20
    Example: pmoss data collect runs/host --backend hardware --tier random -e slices=16
    """
    from pmoss_datasets import Behaviour, Recipe, find_domain
    from pmoss_datasets import collect as run
    from pmoss_datasets.executors import at_once
    from pmoss_datasets.recipes import slug

    if recipe:
        why = "the file decides all of it; leave out one or the other"
        _refuse(ctx, "with --recipe", (*_IN_RECIPES, *_OF_POLICY), why)
        chosen = Recipe.from_toml(recipe, trust or ())
    else:
        why = "what the command line names itself is trusted; leave it out"
        _refuse(ctx, "without --recipe", ["trust"], why)
        behaviours: tuple[Behaviour, ...] = ()
        if policy is None:
            _refuse(
                ctx, "without a policy", _OF_POLICY, "of that one policy; give both, or neither"
            )
        else:
            _refuse(
                ctx, f"with {policy}", ["tier"], "one policy takes a tier's place; leave one out"
            )
            behaviours = (Behaviour(policy, epsilon=epsilon, arguments=tuple(argument or ())),)
            tier = slug(policy.partition(":")[0].replace("_", "-"))
        task = {**({"backend": backend} if backend else {}), **env_arguments(env, machine)}
        chosen = Recipe(
            **find_domain(domain).asked(task),
            domain=domain,
            tier=tier,
            episodes=episodes,
            seed=seed,
            behaviours=behaviours,
            counterfactuals=counterfactuals,
            namespace=namespace,
        )
    check_output(out, folder=True)
    with progress_bar("collecting") as progress:
        places: dict[str, Any] = {"executor": executor, "address": address}
        count = at_once(processes, executor)
        dataset = run(chosen, out, progress, count, **places, overwrite=overwrite)
    finals = (played := dataset.domain).shown(dataset.column(played.outcome))
    console.print(
        f"{dataset.metadata.id}: {len(dataset)} episodes, {finals.mean():.1f} {played.unit} on "
        f"average ({finals.min():.1f} to {finals.max():.1f}), in {out}"
    )


def list_datasets(asked: Request) -> None:
    """Lists the datasets that are here and how much of the suite is built, or shows a card."""
    from pmoss_datasets.card import card
    from pmoss_datasets.catalog import default_root, listings, load
    from pmoss_datasets.suite import suite_ids

    if asked.name is not None:
        dataset = load(asked.name, asked.root, obtain=False)
        if asked.as_json:
            show_json({**asdict(dataset.metadata), "checksum": dataset.checksum})
        else:
            typer.echo(printable(card(dataset)), nl=False)
        return
    _check_root(asked.root)
    place = asked.root or default_root()
    rows = listings(place)
    columns = ["id", ">episodes", ">mean outcome", ">MB", ""]
    if asked.as_json:
        show_rows("", columns, rows, True)
        return
    # Other programs get whole lines.
    wide = console if console.is_terminal else PlainConsole(max(console.width, 160))
    wide.print(table(f"Datasets: shipped, and built in {place}", columns, rows))
    suite = suite_ids()
    built = {name for name, *_ in rows} & set(suite)
    console.print(
        f"{len(built)} of the {len(suite)} of the standard suite are built; "
        "pmoss data build makes the others."
    )


def build(
    ctx: typer.Context,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of the suite; the whole suite if none.")
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task, or core: all core tasks; repeatable.")
    ] = None,
    tier: Annotated[list[str] | None, typer.Option(help="Only this tier; repeatable.")] = None,
    shipped: Annotated[
        bool, typer.Option(help="Those that are part of the package, in its own folder.")
    ] = False,
    root: Root = None,
    processes: Processes = None,
    executor: Executor = "processes",
    address: Address = None,
    overwrite: Overwrite = False,
) -> None:
    """Build the standard suite, or a part of it, from its committed recipes.

    What is built already is kept, and an interrupted build goes on where it stopped.

    Example: pmoss data build --task milan-nps4-btree-ycsb-a-all --tier expert
    Example: pmoss data build --task core --tier large --tier validation
    """
    from pmoss_datasets import suite
    from pmoss_datasets.catalog import default_root
    from pmoss_datasets.executors import at_once

    if ids:
        why = "they choose what else to build; leave out one or the other"
        _refuse(ctx, f"with {ids[0]}", ("task", "tier", "shipped"), why)
    if shipped:
        why = "what ships, and where, is fixed; leave out one or the other"
        _refuse(ctx, "with --shipped", ("task", "tier", "root"), why)
        chosen, place = list(suite.SHIPPED), suite.SHIPPED_ROOT
    else:
        tasks = [
            n for name in task or () for n in (suite.core_tasks() if name == "core" else [name])
        ]
        chosen = list(ids or suite.suite_ids(tasks, tier or ()))
        place = root or default_root()
    for id_ in chosen:
        suite.recipe_of(id_)
    for number, id_ in enumerate(chosen, start=1):
        with progress_bar(f"{number}/{len(chosen)} {id_.removeprefix('pmoss/')}") as progress:
            dataset = suite.build(
                id_,
                place,
                progress,
                overwrite=overwrite,
                processes=at_once(processes, executor),
                executor=executor,
                address=address,
            )
        size = sum(path.lstat().st_size for path in dataset.path.iterdir()) / 1e6
        console.print(f"{id_}: {len(dataset)} episodes, {size:.2f} MB, {dataset.checksum[:12]}")
    console.print(f"{len(chosen)} datasets in {place}")


def verify(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Ids, datasets or folders of datasets; all that are here if none."),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option(help="Also collect each again from its recipe and compare the bits.")
    ] = False,
    replay: Annotated[
        bool, typer.Option(help="Also play each episode again from its seed and its actions.")
    ] = False,
    trust: TrustOption = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="An index of yours that datasets here are of; no file can name one. Repeatable.",
        ),
    ] = None,
    root: Root = None,
) -> None:
    """Read every value, not an HDF5 file's padding, and list what is wrong: file, episode, field.

    Example: pmoss data verify runs/data

    Example: pmoss data verify runs/mine --plugin ./index.so
    """
    from pmoss_datasets import suite
    from pmoss_datasets.catalog import dataset_folders, default_root, load_data, open_data
    from pmoss_datasets.catalog import verify as find
    from pmoss_datasets.replaying import replay as replayed
    from pmoss_datasets.storage import Dataset
    from pmoss_env.indexes import register_plugin

    _check_root(root)
    if trust and not rebuild:
        raise DescriptionError(
            f"--trust {', '.join(trust)}: only --rebuild imports policies of recipes; an index of "
            "yours is named by --plugin"
        )
    for library in plugin or ():
        register_plugin(library)
    folders = [
        Path(path) if Path(path).exists() else load_data(path, root, obtain=False)[1].path
        for path in paths or [str(root or default_root()), str(suite.SHIPPED_ROOT)]
        if paths or Path(path).exists()
    ]
    problems = list(find(folders))
    every = [folder for place in folders for folder in dataset_folders(place)]
    opened = [] if problems else [open_data(path)[1] for path in every]
    played = [data for data in opened if isinstance(data, Dataset)]
    for dataset in played if replay else ():
        with progress_bar(f"replaying {dataset.path.name}") as progress:
            problems += replayed(dataset, progress)
    if rebuild and not problems:
        with tempfile.TemporaryDirectory() as scratch, progress_bar("rebuilding") as progress:
            for number, dataset in enumerate(played):
                progress(number, len(played))
                try:
                    again = suite.rebuild(dataset, Path(scratch) / str(number), trusted=trust or ())
                    problems += suite.check_rebuild(dataset, again)
                except PmossError as error:
                    problems.append(f"{dataset.path}: cannot be rebuilt: {error}")
            progress(len(played), len(played))
    for problem in problems:
        typer.echo(printable(problem, lines=False))
    if problems:
        raise typer.Exit(1)
    unchecked = [f"{d.path}: {what}" for d in played for what in d.domain.unchecked(d.metadata)]
    for what in unchecked:
        typer.echo(f"not checked: {printable(what, lines=False)}")
    verdict = "nothing wrong in what can be checked here" if unchecked else "nothing wrong"
    console.print(f"{len(every)} datasets, {verdict}")
    if (only_read := len(opened) - len(played)) and (replay or rebuild):
        console.print(
            f"{only_read} hold no episodes: they were read, not played or collected again"
        )


def convert(
    source: Annotated[str, typer.Argument(help="A dataset's id or folder.")],
    out: Annotated[Path, typer.Argument(help="Folder (minari) or file (d4rl).")],
    to: Annotated[Format, typer.Option(help="What to write.")] = Format.minari,
    reward: RewardOption = None,
    root: Root = None,
    overwrite: Overwrite = False,
) -> None:
    """Convert a dataset for Minari or D4RL.

    minari writes OUT/ID, which stock Minari opens (MINARI_DATASETS_PATH=OUT); d4rl one HDF5 file
    of flat arrays. Expanded observations are large: 4 MB an episode.

    Example: pmoss data convert pmoss/toy-btree-ycsb-a-busy-core/mixed-v0 runs/minari
    """
    from pmoss_datasets.catalog import load

    dataset = load(source, root)
    if to is Format.minari:
        from pmoss_datasets.formats.minari import to_minari

        to_minari(dataset, out, reward, overwrite=overwrite)
        console.print(f"{out / dataset.metadata.id}: MINARI_DATASETS_PATH={out}")
        return
    from pmoss_datasets.formats.d4rl import write_d4rl

    with progress_bar("writing") as progress:
        write_d4rl(dataset, out, reward, progress, overwrite=overwrite)
    console.print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")
