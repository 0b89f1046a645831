"""The first episodes of a dataset, as a dataset: to measure what a smaller dataset is worth."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

from pmoss_datasets.storage import Dataset, write_dataset
from pmoss_env.errors import DescriptionError


def excerpt(
    dataset: Dataset, path: str | Path, episodes: int, *, overwrite: bool = False
) -> Dataset:
    """Writes the first episodes of a dataset.

    Returns:
        The new dataset; its id names the number of episodes behind the tier.

    Raises:
        DescriptionError: the dataset has fewer episodes, or none is asked for.
    """
    if not 1 <= episodes <= len(dataset):
        raise DescriptionError(
            f"episodes = {episodes}: must be from 1 to {len(dataset)}, as {dataset.id} has so many"
        )
    old = dataset.metadata
    name, _, version = old.id.rpartition("-")
    metadata = replace(
        old,
        id=f"{name}-{episodes}-{version}",
        recipe={},
        provenance={
            **old.provenance,
            "excerpt": {"id": old.id, "checksum": dataset.checksum, "episodes": episodes},
        },
        checksums={},
    )
    return write_dataset(path, list(islice(dataset, episodes)), metadata, overwrite=overwrite)
