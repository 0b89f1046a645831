"""Collecting a dataset: a mixture of behaviour policies plays the environment.

Recipe seed and episode number alone decide an episode. So the same recipe gives the same bits with
any number of processes, and after any number of interruptions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_datasets.domain import find_domain
from pmoss_datasets.executors import check_extras, run_tasks
from pmoss_datasets.folder import check_target, import_h5py
from pmoss_datasets.playing import RecipeWork
from pmoss_datasets.recipes import Recipe
from pmoss_datasets.schema import SCHEMA_VERSION, Metadata, Played
from pmoss_datasets.storage import Dataset, write_dataset
from pmoss_env import __version__
from pmoss_env.errors import DescriptionError
from pmoss_env.files import file_sha256
from pmoss_env.result_files import ResultFile, packed, unpacked

#: progress(done, total) after every episode.
Progress = Callable[[int, int], None]


def collect(
    recipe: Recipe,
    path: str | Path,
    progress: Progress | None = None,
    processes: int = 1,
    *,
    executor: str = "processes",
    address: str | None = None,
    overwrite: bool = False,
    headroom: Mapping[str, Any] | None = None,
) -> Dataset:
    """Collects a dataset and writes it.

    The folder appears, whole, at the very end. Until then every finished episode is kept in
    ``<path>.partial``: after Ctrl-C or a kill, the same call goes on from there.

    Args:
        progress: called with (done, total) at the beginning and after every episode.
        processes: worker processes; 1 works in this one. The bits are the same for any number.
        executor: "processes", or "ray" for a cluster; see ``pmoss_datasets.executors``.
        address: of the Ray cluster.
        headroom: of the task, for the metadata.

    Raises:
        DatasetError: the folder exists or cannot be written, an episode breaks the schema, or
            another collection was begun there.
        DescriptionError: the recipe is none.
        MissingExtraError: h5py or Ray is not installed; before any work.
        PmossError: the recipe's environment or policy refuses.
    """
    if not isinstance(recipe, Recipe):
        raise DescriptionError(
            f"{recipe!r}: is no recipe: give a Recipe, as of Recipe.from_dict() or from_toml()"
        )
    path = Path(path).absolute()  # "." has no name
    import_h5py()
    check_extras(executor)
    check_target(path, overwrite)
    domain = find_domain(recipe.domain)
    total = recipe.episodes + recipe.reference_episodes
    with ResultFile(partial_path(path), about(recipe), key=("number",)) as kept:
        tasks = [number for number in range(total) if kept.get(number) is None]
        results = run_tasks(
            partial(RecipeWork, recipe),
            tasks,
            executor=executor,
            processes=processes,
            address=address,
            on_servers=domain.measures_host(recipe.kwargs),
        )
        if progress is not None and len(tasks) < total:
            progress(total - len(tasks), total)
        with closing(results):
            for number, record in results if tasks else ():
                kept.append({"number": number, **packed(record)})
                if progress is not None:
                    progress(len(kept.rows), total)
        # Large episodes fill the memory: what was read of a row is not kept beside it.
        records = (unpacked(kept.rows.pop((number,))) for number in range(total))
        played = [Played.from_bytes(record) for record in islice(records, recipe.episodes)]
        metadata = _metadata(recipe, played, list(records), headroom or {})
        episodes = [domain.episode(each.values) for each in played]
        dataset = write_dataset(path, episodes, metadata, overwrite=overwrite)
        kept.remove()
    return dataset


def partial_path(path: Path) -> Path:
    """The file that keeps the finished episodes of a collection into ``path``."""
    return path.with_name(f"{path.name}.partial")


def about(recipe: Recipe) -> dict[str, Any]:
    """The settings that determine the episodes of a collection, as plain JSON.

    Files that a recipe names, such as a machine's, are among them by their checksums.
    """
    words = [word for word in recipe.env.values() if isinstance(word, str)]
    words += [word for behaviour in recipe.behaviours for word in behaviour.arguments]
    files = {word: file_sha256(word) for word in words if os.path.isfile(word)}
    return {
        "kind": "collection",
        "recipe": recipe.as_dict(),
        **({"files": files} if files else {}),
        "version": __version__,
        "schema": SCHEMA_VERSION,
        **find_domain(recipe.domain).protocol(),
    }


def _metadata(
    recipe: Recipe, played: list[Played], references: list[bytes], headroom: Mapping[str, Any]
) -> Metadata:
    domain = find_domain(recipe.domain)
    return domain.metadata(
        id=recipe.id,
        env_kwargs=recipe.kwargs,
        recipe=recipe.as_dict(),
        seed=recipe.seed,
        code_version=__version__,
        episodes=len(played),
        policy_names=tuple(behaviour.name for behaviour in recipe.behaviours),
        reference_scores=_scores(domain.references, references, recipe.reference_budget),
        checksums={},
        headroom=headroom,
        domain=domain.name,
        **domain.facts(recipe, played),
    )


def _scores(
    names: tuple[str, ...], references: list[bytes], budget: int
) -> dict[str, dict[str, float]]:
    if not references:
        return {}
    columns = np.array([np.frombuffer(record, dtype="<f8") for record in references]).T
    scores = {
        name: {
            "mean": float(values.mean()),
            "std": float(values.std(ddof=1)),
            "n": values.size,
        }
        for name, values in zip(names, columns, strict=True)
    }
    if "search" in scores:
        scores["search"]["budget"] = budget
    return scores
