"""Finding datasets by id: those that ship, and those built or imported here."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pmoss_datasets.folder import DATA, METADATA, read_metadata
from pmoss_datasets.formats.minari import MAIN
from pmoss_datasets.storage import Dataset, open_dataset
from pmoss_datasets.suite import SHIPPED_ROOT
from pmoss_env.errors import DatasetError, PmossError, UnknownNameError

#: Environment variable that names the folder of datasets.
VARIABLE = "PMOSS_DATASETS_PATH"


def default_root() -> Path:
    """Where datasets are kept: ``$PMOSS_DATASETS_PATH``, else ``~/.pmoss/datasets``."""
    return Path(os.environ.get(VARIABLE) or Path.home() / ".pmoss" / "datasets")


def dataset_folders(root: Path) -> Iterator[Path]:
    """The folders of datasets anywhere under a root, by name; damaged ones may lack a file."""
    for folder in sorted({path.parent for name in (DATA, METADATA) for path in root.rglob(name)}):
        # Minari's folders hold metadata, too. And a dot begins what is being written.
        if not (folder / MAIN).exists() and not folder.name.startswith("."):
            yield folder


def known_ids(root: str | Path | None = None) -> list[str]:
    """The ids of all datasets that can be loaded; their arrays are not looked at."""
    ids = set()
    for place in (Path(root) if root else default_root(), SHIPPED_ROOT):
        for folder in dataset_folders(place):
            with suppress(DatasetError):
                _, metadata = read_metadata(folder)
                if isinstance(metadata, dict):
                    ids.add(str(metadata.get("id")))
    return sorted(ids)


def installed() -> list[Dataset]:
    """The datasets under the default root, and what ships, that can be opened."""
    found = []
    for root in (default_root(), SHIPPED_ROOT):
        for folder in dataset_folders(root):
            try:
                found.append(open_dataset(folder))
            except PmossError:
                continue  # verify() tells about it
    return found


def load(name: str | Path, root: str | Path | None = None) -> Dataset:
    """A dataset by its folder, or by its id under the root, else among those that ship.

    Raises:
        UnknownNameError: no such id.
        DatasetError: it is damaged.
    """
    if not str(name).startswith("pmoss/") or Path(name).exists():
        return open_dataset(name)
    for place in (Path(root) if root else default_root(), SHIPPED_ROOT):
        if (place / name / METADATA).is_file():
            return open_dataset(place / name)
    raise UnknownNameError("dataset", str(name), known_ids(root))


def verify(folders: Sequence[Path]) -> Iterator[str]:
    """All that is wrong with the datasets in or under some folders, one line each.

    Each line names the file, and where it can the episode and the field. Two datasets of the same
    id under one of the folders are told, too.
    """
    for folder in folders:
        paths = [folder] if (folder / METADATA).is_file() else list(dataset_folders(folder))
        if not paths:
            yield f"{folder}: holds no dataset"
        by_id: dict[str, list[Path]] = defaultdict(list)
        for path in paths:
            try:
                dataset = open_dataset(path)
            except DatasetError as error:
                yield str(error)
                continue
            by_id[dataset.metadata.id].append(path)
            yield from dataset.problems()
        for id_, places in by_id.items():
            if len(places) > 1:
                yield f"id {id_}: more than once: {', '.join(map(str, places))}"
