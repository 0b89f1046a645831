"""Collecting a dataset: a mixture of behaviour policies plays the environment.

Each episode is decided by (recipe seed, episode number) and nothing else, so the same recipe gives
the same bits with any number of processes, and after any number of interruptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_datasets.executors import run_tasks
from pmoss_datasets.folder import check_target
from pmoss_datasets.recipes import Recipe
from pmoss_datasets.schema import SCHEMA_VERSION, Metadata, machine_facts
from pmoss_datasets.spatial.playing import Played, RecipeWork
from pmoss_datasets.storage import Dataset, write_dataset
from pmoss_env import __version__
from pmoss_env.backends import backend_class
from pmoss_env.machines import load_machine
from pmoss_env.result_files import ResultFile, packed, unpacked
from pmoss_env.types import COUNTER_NAMES

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
        recipe: what to collect.
        path: the folder to write.
        progress: called with (done, total) at the beginning and after every episode.
        processes: worker processes; 1 works in this one. The bits are the same for any number.
        executor: "processes", or "ray" for a cluster; see ``pmoss_datasets.executors``.
        address: of the Ray cluster.
        overwrite: replace a dataset that is there already.
        headroom: of the task, for the metadata.

    Raises:
        DatasetError: the folder exists or cannot be written, an episode breaks the schema, or
            another collection was begun there.
        PmossError: the recipe's environment or policy refuses.
    """
    path = Path(path)
    check_target(path, overwrite)
    total = recipe.episodes + recipe.reference_episodes
    with ResultFile(partial_path(path), about(recipe), key=("number",)) as kept:
        tasks = [number for number in range(total) if kept.get(number) is None]
        results = run_tasks(
            partial(RecipeWork, recipe),
            tasks,
            executor=executor,
            processes=processes,
            address=address,
            on_servers=backend_class(recipe.kwargs["backend"]).measures_host,
        )
        if progress is not None and len(tasks) < total:
            progress(total - len(tasks), total)
        for number, record in results if tasks else ():
            kept.append({"number": number, **packed(record)})
            if progress is not None:
                progress(len(kept.rows), total)
        records = [unpacked(kept.rows[number,]) for number in range(total)]
        played = [Played.from_bytes(record) for record in records[: recipe.episodes]]
        metadata = _metadata(recipe, played, records[recipe.episodes :], headroom or {})
        dataset = write_dataset(path, [p.episode for p in played], metadata, overwrite=overwrite)
        kept.remove()
    return dataset


def partial_path(path: Path) -> Path:
    """The file that keeps the finished episodes of a collection into ``path``."""
    return path.with_name(f"{path.name}.partial")


def about(recipe: Recipe) -> dict[str, Any]:
    """What decides the episodes of a collection, as plain JSON."""
    return {
        "kind": "collection",
        "recipe": asdict(recipe),
        "version": __version__,
        "schema": SCHEMA_VERSION,
        "counters": list(COUNTER_NAMES),
    }


def _metadata(
    recipe: Recipe, played: list[Played], references: list[bytes], headroom: Mapping[str, Any]
) -> Metadata:
    provenance = dict(played[-1].provenance)
    provenance.pop("seed", None)  # differs between the episodes; each has its own field
    return Metadata(
        id=recipe.id,
        env_kwargs=recipe.kwargs,
        recipe=asdict(recipe),
        seed=recipe.seed,
        code_version=__version__,
        episodes=len(played),
        slices=played[0].episode.slices,
        counter_names=COUNTER_NAMES,
        offcore_names=played[-1].offcore_names,
        policy_names=tuple(behaviour.name for behaviour in recipe.behaviours),
        machine=machine_facts(load_machine(recipe.kwargs["machine"])),
        reference_scores=_scores(references, recipe.reference_budget),
        provenance=provenance,
        checksums={},
        headroom=headroom,
    )


def _scores(references: list[bytes], budget: int) -> dict[str, dict[str, float]]:
    if not references:
        return {}
    columns = np.array([np.frombuffer(record, dtype="<f8") for record in references]).T
    scores = {
        name: {
            "mean": float(values.mean()),
            "std": float(values.std(ddof=1)),
            "n": values.size,
        }
        for name, values in zip(("random", "search", "incumbent"), columns, strict=True)
    }
    scores["search"]["budget"] = budget
    return scores
