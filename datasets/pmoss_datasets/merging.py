"""One dataset from several of the same task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pmoss_datasets.schema import ID_PATTERN
from pmoss_datasets.storage import Dataset, write_dataset
from pmoss_env.errors import DatasetError, DescriptionError


def merge(
    datasets: Sequence[Dataset], path: str | Path, tier: str, *, overwrite: bool = False
) -> Dataset:
    """Writes the episodes of all datasets, in their order, as one.

    Episodes keep their numbers where no two have the same one, else they are numbered anew. The
    reference scores are those of the first dataset that has some.

    Raises:
        DescriptionError: fewer than two datasets, or a tier that makes no id.
        DatasetError: they do not fit each other, or hold an episode twice; names both places.
    """
    if len(datasets) < 2:
        raise DescriptionError(f"{len(datasets)} datasets: merging takes at least two")
    first = datasets[0].metadata
    version = datasets[0].domain.version_of(first.env_kwargs)
    id_ = f"{first.id.rpartition('/')[0]}/{tier}-v{version}"
    if not ID_PATTERN.fullmatch(id_):
        raise DescriptionError(f"tier {tier!r}: makes no id: {id_!r}")
    for dataset in datasets[1:]:
        _check_fit(datasets[0], dataset)
    names: list[str] = []
    episodes: list[Any] = []
    first_of: dict[tuple[Any, ...], tuple[int, str]] = {}
    for number, dataset in enumerate(datasets):
        for i, episode in enumerate(dataset):
            where = f"{dataset.path}: episode {i}"
            key = dataset.domain.identity(episode)
            # A search that found nothing better between two visits leaves equal episodes.
            if first_of.setdefault(key, (number, where))[0] != number:
                raise DatasetError(f"{where}: seed {episode.seed}: is also {first_of[key][1]}")
            name = dataset.policy_name(i)
            if name not in names:
                names.append(name)
            episodes.append(replace(episode, policy=names.index(name)))
    if len({episode.episode for episode in episodes}) < len(episodes):
        episodes = [replace(episode, episode=i) for i, episode in enumerate(episodes)]
    scores = (d.metadata.reference_scores for d in datasets if d.metadata.reference_scores)
    provenance = {
        **first.provenance,
        "merged": [{"id": d.metadata.id, "checksum": d.checksum} for d in datasets],
    }
    metadata = replace(
        first,
        id=id_,
        recipe={},
        policy_names=tuple(names),
        reference_scores=next(scores, {}),
        provenance=provenance,
        checksums={},
    )
    return write_dataset(path, episodes, metadata, overwrite=overwrite)


def _check_fit(first: Dataset, other: Dataset) -> None:
    for key in ("domain", *first.domain.fitting):
        expected, given = getattr(first.metadata, key), getattr(other.metadata, key)
        if expected != given:
            raise DatasetError(
                f"{other.path}: {key} = {given}: does not fit {first.path}, which has {expected}"
            )
