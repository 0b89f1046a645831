"""The standard suite: committed tasks times committed tiers, and the datasets that ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pmoss_datasets.collection import collect
from pmoss_datasets.recipes import PRESETS, Recipe, tier, tier_names
from pmoss_datasets.storage import Dataset, open_dataset
from pmoss_env import __version__
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.files import read_toml

#: The tiers of every task; "small" is for what ships.
TIERS = ("random", "heuristic", "medium", "replay", "expert", "mixed")
#: Ids of the datasets that are part of the package.
SHIPPED = (
    "pmoss/toy-btree-ycsb-a-busy-core/mixed-v0",
    "pmoss/skylake-x-8n-btree-ycsb-a-busy-core/small-v0",
    "pmoss/milan-nps4-btree-ycsb-a-cache-thrash/small-v0",
)
SHIPPED_ROOT = Path(__file__).parent / "shipped"
#: The task that ships but is no benchmark: small enough to enumerate.
TOY = "toy-btree-ycsb-a-busy-core"


@dataclass(frozen=True)
class Task:
    """A committed task.

    Attributes:
        name: ``<machine>-<index>-<workload>``, and load and interference where not the usual ones.
        env: keyword arguments of ``pmoss/SpatialScheduling-v0``.
        headroom: what ``pmoss benchmark headroom`` found; empty if it was not asked.
    """

    name: str
    env: Mapping[str, Any]
    headroom: Mapping[str, Any] = field(default_factory=dict)


def task_names() -> tuple[str, ...]:
    """Names of all committed tasks, the toy among them."""
    return tuple(sorted(path.stem for path in (PRESETS / "tasks").glob("*.toml")))


def load_task(name: str) -> Task:
    """A committed task; UnknownNameError if there is none of that name."""
    if name not in task_names():
        raise UnknownNameError("task", name, task_names())
    data = read_toml(PRESETS / "tasks" / f"{name}.toml", dict)
    return Task(name, data["env"], data.get("headroom", {}))


def recipe_of(id_: str) -> Recipe:
    """The recipe of a dataset of the suite, by its id.

    Raises:
        UnknownNameError: no such task or tier.
        DescriptionError: something else than ``pmoss/<task>/<tier>-v0``.
    """
    parts = id_.split("/")
    if len(parts) != 3 or parts[0] != "pmoss" or not parts[2].endswith("-v0"):
        raise DescriptionError(f"id {id_!r}: must look like pmoss/<task>/<tier>-v0")
    task, name = load_task(parts[1]), parts[2].removesuffix("-v0")
    if name not in tier_names():
        raise UnknownNameError("tier", name, tier_names())
    return Recipe.from_dict({**tier(name), "tier": name, "env": task.env})


def suite_ids(tasks: Sequence[str] = (), tiers: Sequence[str] = ()) -> list[str]:
    """Ids of the standard suite, or of a part of it.

    Args:
        tasks: names; all but the toy if empty.
        tiers: names; TIERS if empty.
    """
    chosen = tasks or [name for name in task_names() if name != TOY]
    ids = [f"pmoss/{task}/{name}-v0" for task in chosen for name in tiers or TIERS]
    for id_ in ids:
        recipe_of(id_)
    return ids


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

    Args:
        id_: of the suite.
        root: folder of datasets.
        progress: as of collect().
        overwrite: build it again in any case.
        processes: as of collect().
        executor: as of collect().
        address: as of collect().

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

    Args:
        recipe: of the dataset.
        path: its folder.
        progress: as of collect().
        overwrite: collect it again in any case.
        **how: further arguments of collect().

    Raises:
        DatasetError: the dataset that is there is damaged, or has another recipe or version.
    """
    if path.exists() and not overwrite:
        try:
            found = open_dataset(path)
            made = found.metadata
            if made.code_version == __version__ and Recipe.from_dict(made.recipe) == recipe:
                found.verify()
                return found
        except DatasetError as error:
            raise DatasetError(f"{error}; --overwrite builds it again") from error
        raise DatasetError(
            f"{path}: was built with pmoss-env {made.code_version} from another recipe or version; "
            "overwrite it, or choose another root"
        )
    return collect(recipe, path, progress, overwrite=overwrite, **how)


def check_rebuild(dataset: Dataset, again: Dataset) -> list[str]:
    """How a dataset differs from one that its recipe gave again; empty if in no bit.

    Args:
        dataset: the old one.
        again: the new one.
    """
    old, new = dataset.metadata, again.metadata
    differing = [name for name in new.checksums if new.checksums[name] != old.checksums.get(name)]
    if not differing and dict(new.reference_scores) == dict(old.reference_scores):
        return []
    return [
        f"{old.id}: made by pmoss-env {old.code_version}, its recipe now gives other bits in "
        f"{', '.join(differing) or 'the reference scores'}: the model, the environment or the "
        "collection changed since. If that was meant, build it again: pmoss datasets build "
        f"--shipped --overwrite (in the repository), or pmoss datasets build {old.id} --overwrite"
    ]


def rebuild(dataset: Dataset, path: str | Path, processes: int = 1) -> Dataset:
    """Collects a dataset again from the recipe in its metadata; DatasetError if it has none."""
    if not dataset.metadata.recipe:
        raise DatasetError(f"{dataset.path}: recipe: is empty: it was imported or merged")
    recipe = Recipe.from_dict(dataset.metadata.recipe)
    return collect(recipe, path, processes=processes, headroom=dataset.metadata.headroom)
