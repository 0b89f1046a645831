"""The standard suite: committed tasks times committed tiers, and the datasets that ship."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pmoss_datasets.collection import collect
from pmoss_datasets.domain import domain_names, find_domain
from pmoss_datasets.presets import task_files
from pmoss_datasets.recipes import Recipe, tier, tier_names
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.storage import Dataset, open_dataset
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.files import read_toml
from pmoss_env.version import CONTINUED

#: The tiers of every task; "small" is for what ships.
TIERS = ("random", "heuristic", "medium", "replay", "expert", "mixed")
#: Ids of the datasets that are part of the package.
SHIPPED = (
    "pmoss/toy-btree-ycsb-a-busy-core/mixed-v0",
    "pmoss/skylake-x-8n-btree-ycsb-a-busy-core/small-v0",
    "pmoss/milan-nps4-btree-ycsb-a-cache-thrash/small-v0",
)
#: Datasets that ship and were measured on a host, with their checksums: no recipe gives them again.
MEASURED: Mapping[str, str] = {
    "pmoss/host-btree-lookups-scans-closed-4000-busy-core-hardware-records-200000-routers-workers-"
    "seconds-0_2-warmup-seconds-0_1/measured-v0": (
        "8f109287c79f7130c2a4ab02a60051e94fa1895ac8b615ec7b829fd5cd12814d"
    ),
}
SHIPPED_ROOT = Path(__file__).parent / "shipped"
#: Of all that the committed recipes give, and of what was measured here, an SPDX name.
LICENCE = "Apache-2.0"
#: The task that ships but is no benchmark: small enough to enumerate.
TOY = "toy-btree-ycsb-a-busy-core"


@dataclass(frozen=True)
class Task:
    """A committed task.

    Attributes:
        name: as its domain names it, e.g. ``<machine>-<index>-<workload>``.
        headroom: what the study headroom found; empty if it was not asked.
    """

    name: str
    env: Mapping[str, Any]
    headroom: Mapping[str, Any] = field(default_factory=dict)
    domain: str = FIRST_DOMAIN


def task_names(domain: str = FIRST_DOMAIN) -> tuple[str, ...]:
    """Names of all committed tasks of a domain, the toy among them.

    A domain that commits none has one, that of its environment with its usual arguments.
    """
    folder = find_domain(domain).presets
    files = task_files(folder) if folder else {}
    return tuple(sorted(files)) or (Recipe(domain=domain).task,)


def _preset(name: str) -> dict[str, Any]:
    """A committed file about the tasks of the first domain."""
    folder = find_domain(FIRST_DOMAIN).presets
    assert folder is not None
    return read_toml(folder / f"{name}.toml", dict)


@cache
def paper_tasks() -> dict[str, Mapping[str, Any]]:
    """Tasks that P-MOSS reports (section 7.3) beside those of task_names().

    Returns:
        Arguments of the environment of each, by its name.
    """
    envs = [
        {"machine": machine, "index": pair["index"], "workload": pair["workload"]}
        for pair in _preset("paper")["pair"]
        for machine in pair["machines"]
    ]
    return {Recipe(env=env).task: env for env in envs}


def core_tasks() -> dict[str, str]:
    """Tasks that tell methods apart, and what makes each of them hard."""
    return {name: kind for name, (kind, _) in _of_core().items()}


@cache
def _of_core() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Kind and arguments of the environment of each of core_tasks(), by its name."""
    envs = [
        (table["kind"], {key: value for key, value in table.items() if key != "kind"})
        for table in _preset("core")["task"]
    ]
    return {Recipe(env=env).task: (kind, env) for kind, env in envs}


def load_task(name: str) -> Task:
    """A committed task; UnknownNameError if there is none of that name."""
    names: list[str] = []
    for domain in domain_names():
        folder = find_domain(domain).presets
        files = task_files(folder) if folder else {}
        if name in files:
            data = read_toml(files[name], dict)
            return Task(name, data["env"], data.get("headroom", {}), domain)
        if domain == FIRST_DOMAIN and name in paper_tasks():
            return Task(name, paper_tasks()[name])
        if domain == FIRST_DOMAIN and name in _of_core():
            return Task(name, _of_core()[name][1])
        names += files
        if not files and (usual := Recipe(domain=domain)).task == name:
            return Task(name, usual.kwargs, domain=domain)
    raise UnknownNameError("task", name, [*names, *_of_core(), *paper_tasks()])


def splits() -> dict[str, tuple[str, ...]]:
    """Tasks by the split that they are in: "development" or "held-out".

    Settings are chosen on development tasks alone. Every task is in one split, but the toy.
    """
    return {name: tuple(tasks) for name, tasks in _preset("splits").items()}


def recipe_of(id_: str) -> Recipe:
    """The recipe of a dataset of the suite, by its id.

    Raises:
        DescriptionError: something else than ``pmoss/<task>/<tier>-v0``, or of another version.
    """
    parts = id_.split("/")
    name, _, version = parts[-1].rpartition("-v")
    if len(parts) != 3 or parts[0] != "pmoss" or not (name and version.isdecimal()):
        raise DescriptionError(f"id {id_!r}: must look like pmoss/<task>/<tier>-v0")
    task = load_task(parts[1])
    if version != (today := str(find_domain(task.domain).version_of(task.env))):
        raise DescriptionError(
            f"id {id_!r}: the suite has another version of it: pmoss/{task.name}/{name}-v{today}"
        )
    keys = {"tier": name, "env": task.env, "domain": task.domain}
    return Recipe.from_dict({**tier(name, task.domain), **keys})


def suite_ids(
    tasks: Sequence[str] = (), tiers: Sequence[str] = (), domain: str = FIRST_DOMAIN
) -> list[str]:
    """Ids of the standard suite, or of a part of it.

    Args:
        tasks: names; all but the toy if empty.
        tiers: names; if empty TIERS, as far as the domain has them.
    """
    chosen = tasks or [name for name in task_names(domain) if name != TOY]
    ids = [
        f"pmoss/{task}/{name}-v{find_domain(load_task(task).domain).version_of(load_task(task).env)}"
        for task in chosen
        for name in tiers or [t for t in TIERS if t in tier_names(load_task(task).domain)]
    ]
    for id_ in ids:
        recipe_of(id_)
    return ids


def every_id() -> list[str]:
    """Ids of the standard suite of all domains, those that ship first."""
    ids = dict.fromkeys(SHIPPED)
    for domain in domain_names():
        ids |= dict.fromkeys(suite_ids(domain=domain))
    return list(ids)


def build(
    id_: str,
    root: str | Path,
    progress: Callable[[int, int], None] | None = None,
    *,
    overwrite: bool = False,
    processes: int = 1,
    executor: str = "processes",
    address: str | None = None,
) -> Dataset:
    """Builds ``<root>/<id>``, or takes it as it is there if it has this recipe and version.

    Raises:
        DatasetError: another dataset is there, or a damaged one.
    """
    return obtain(
        recipe_of(id_),
        Path(root) / id_,
        progress,
        overwrite=overwrite,
        processes=processes,
        executor=executor,
        address=address,
        headroom=load_task(id_.split("/")[1]).headroom,
    )


def obtain(
    recipe: Recipe,
    path: Path,
    progress: Callable[[int, int], None] | None = None,
    *,
    overwrite: bool = False,
    **how: Any,
) -> Dataset:
    """The dataset of a recipe: as it lies at ``path``, or collected there.

    Raises:
        DatasetError: the dataset that is there is damaged, or has another recipe or version.
    """
    if path.exists() and not overwrite:
        try:
            existing = open_dataset(path)
            made = existing.metadata
            if made.code_version in CONTINUED and is_recipe(made.recipe, recipe):
                existing.verify()
                return existing
        except DatasetError as error:
            raise DatasetError(f"{error}; --overwrite builds it again") from error
        raise DatasetError(
            f"{path}: was built with pmoss-env {made.code_version} from another recipe or version; "
            "overwrite it, or choose another root"
        )
    return collect(recipe, path, progress, overwrite=overwrite, **how)


def is_recipe(stored: Mapping[str, Any], recipe: Recipe) -> bool:
    """Whether the recipe in a dataset's metadata is this one."""
    named = {behaviour.policy for behaviour in recipe.behaviours}
    try:
        return Recipe.from_dict(stored, trusted=named) == recipe
    except DescriptionError:  # of another version, or of functions of its own
        return False


def licence_of(dataset: Dataset) -> str:
    """The licence of what a committed recipe gave; empty for a user's own data."""
    if dataset.id in MEASURED and MEASURED[dataset.id] == dataset.checksum:
        return LICENCE
    try:
        return LICENCE if is_recipe(dataset.metadata.recipe, recipe_of(dataset.id)) else ""
    except (DescriptionError, UnknownNameError):
        return ""


def check_rebuild(dataset: Dataset, again: Dataset) -> list[str]:
    """The differences to a dataset that its recipe gave again; empty if all bits are equal."""
    old, new = dataset.metadata, again.metadata
    differing = [name for name in new.checksums if new.checksums[name] != old.checksums.get(name)]
    # What says what the arrays are of.
    differing += [
        name for name in ("env_kwargs", "policy_names") if getattr(new, name) != getattr(old, name)
    ]
    if not differing and dict(new.reference_scores) == dict(old.reference_scores):
        return []
    return [
        f"{old.id}: made by pmoss-env {old.code_version}, its recipe now gives other bits in "
        f"{', '.join(differing) or 'the reference scores'}: the model, the environment or the "
        "collection changed since. If that was meant, build it again: pmoss data build "
        f"--shipped --overwrite (in the repository), or pmoss data build {old.id} --overwrite"
    ]


def rebuild(dataset: Dataset, path: str | Path, trusted: Collection[str] = ()) -> Dataset:
    """Collects a dataset again from the recipe in its metadata.

    Args:
        trusted: the "module:function" policies that the recipe may name, which are imported.

    Raises:
        DatasetError: it has no recipe, or one of more or fewer episodes.
        DescriptionError: its recipe is wrong, or names a function that is not trusted.
    """
    if not dataset.metadata.recipe:
        raise DatasetError(f"{dataset.path}: recipe: is empty: it was imported or merged")
    recipe = Recipe.from_dict(dataset.metadata.recipe, trusted)
    if recipe.episodes != len(dataset):
        raise DatasetError(
            f"{dataset.path}: recipe: asks for {recipe.episodes} episodes, and the file holds "
            f"{len(dataset)}"
        )
    return collect(recipe, path, headroom=dataset.metadata.headroom)
