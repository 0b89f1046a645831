"""Finding datasets by id: those that ship, and those built or imported here."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pmoss_datasets import mirrors
from pmoss_datasets.domain import Domain, domains
from pmoss_datasets.folder import DATA, METADATA, import_h5py, read_metadata
from pmoss_datasets.formats.minari import is_minari
from pmoss_datasets.interfaces import OtherData
from pmoss_datasets.schema import ID_PATTERN
from pmoss_datasets.storage import Dataset, open_dataset
from pmoss_datasets.suite import SHIPPED_ROOT, is_recipe, recipe_of
from pmoss_env.errors import DatasetError, PluginError, PmossError, UnknownNameError

#: Environment variable that names the folder of datasets.
VARIABLE = "PMOSS_DATASETS_PATH"


def default_root() -> Path:
    """The folder of datasets: ``$PMOSS_DATASETS_PATH``, else ``~/.pmoss/datasets``."""
    return Path(os.environ.get(VARIABLE) or Path.home() / ".pmoss" / "datasets")


def dataset_folders(root: Path) -> Iterator[Path]:
    """The folders of datasets anywhere under a root, by name; damaged ones may lack a file."""
    for folder in sorted({path.parent for name in (DATA, METADATA) for path in root.rglob(name)}):
        # Minari's folders hold metadata, too. And a dot begins what is being written or removed.
        hidden = any(part.startswith(".") for part in folder.relative_to(root).parts)
        if not is_minari(folder) and not hidden:
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


def installed(root: str | Path | None = None) -> list[Dataset]:
    """The datasets under a root, the default one if None, and what ships, that can be opened."""
    datasets = []
    for place in (Path(root) if root else default_root(), SHIPPED_ROOT):
        for folder in dataset_folders(place):
            try:
                datasets.append(open_dataset(folder))
            except PmossError:
                continue  # verify() reports it
    return datasets


def load(
    name: str | Path,
    root: str | Path | None = None,
    *,
    mirror: str | None = None,
    obtain: bool = True,
) -> Dataset:
    """A dataset by its folder, or by its id under the root, else among those that ship.

    One of the standard suite that is not here is downloaded, or made again; see ``mirrors``.

    Args:
        name: folder or id.
        root: folder of datasets; None: default_root().
        mirror: address of a mirror; None: ``$PMOSS_MIRROR``.
        obtain: whether a dataset may be downloaded or made.

    Raises:
        UnknownNameError: no such id.
        DatasetError: it is damaged, is neither here nor to be obtained, or another dataset lies
            where one of this id belongs.
    """
    folder = _folder_of(name, root, mirror, obtain)
    return _named(open_dataset(folder), name, folder)


def load_data(
    name: str | Path, root: str | Path | None = None, *, obtain: bool = True
) -> tuple[Domain, Any]:
    """A dataset by folder or id as load() finds it, or other data of a domain, and the domain.

    Raises:
        UnknownNameError: no such id.
        DatasetError: as load().
    """
    folder = _folder_of(name, root, None, obtain)
    domain, data = open_data(folder)
    return domain, _named(data, name, folder) if isinstance(data, Dataset) else data


def open_data(folder: Path) -> tuple[Domain, Any]:
    """The content of a folder, a ``Dataset`` or ``OtherData``, and its domain."""
    _, metadata = read_metadata(folder)
    form = metadata.get("format") if isinstance(metadata, dict) else None
    for domain in domains().values():
        if isinstance(form, str) and form in domain.formats:
            return domain, domain.formats[form](folder)
    dataset = open_dataset(folder)
    return dataset.domain, dataset


def is_id(name: str | Path) -> bool:
    """Whether a name has the form of a dataset's id."""
    return str(name).startswith("pmoss/") or ID_PATTERN.fullmatch(str(name)) is not None


def _folder_of(name: str | Path, root: str | Path | None, mirror: str | None, obtain: bool) -> Path:
    # An id may be a folder here that holds another form of the data.
    if not is_id(name) or (Path(name) / METADATA).exists():
        return Path(name)
    for place in (Path(root) if root else default_root(), SHIPPED_ROOT):
        if (place / name / METADATA).is_file():
            return place / name
    if mirrors.is_of_suite(str(name)):
        if obtain:
            return mirrors.obtain(str(name), Path(root) if root else default_root(), mirror).path
        raise DatasetError(
            f"{name}: is of the suite, and not here: `pmoss data build {name}` makes it"
        )
    raise UnknownNameError("dataset", str(name), known_ids(root))


def _named(dataset: Dataset, name: str | Path, folder: Path) -> Dataset:
    """The dataset, if it is the one of that name: DatasetError."""
    id_ = str(name)
    if folder in (Path(name), SHIPPED_ROOT / id_):
        return dataset
    if dataset.id != id_:
        raise DatasetError(f"{folder}: holds {dataset.id}, and not {id_}")
    if mirrors.is_of_suite(id_) and not is_recipe(dataset.metadata.recipe, recipe_of(id_)):
        raise DatasetError(
            f"{folder}: is of another recipe than the suite's {id_}: open it by its folder, and "
            "collect with a namespace of your own"
        )
    return dataset


def listings(root: Path) -> list[tuple[str, str, str, str, str]]:
    """The datasets below a root, and those that ship, damaged ones too.

    Returns:
        A row of each, as ``pmoss list datasets`` shows it. First its id, or its folder if damaged.
        Then how many episodes, or what else it holds, or "damaged". Then the mean outcome of the
        episodes with its unit, the megabytes, and "built" or "shipped".

    Raises:
        MissingExtraError: h5py is not installed.
    """
    import_h5py()  # its lack is no damage of a dataset
    rows = []
    for top, place in {root: "built", SHIPPED_ROOT: "shipped"}.items():
        for folder in dataset_folders(top):
            megabytes = sum(path.lstat().st_size for path in folder.iterdir()) / 1e6
            try:
                domain, data = open_data(folder)
                size, outcome = str(len(data)), ""
                if isinstance(data, Dataset):
                    outcome = (
                        f"{domain.shown(data.column(domain.outcome).mean()):.1f} {domain.unit}"
                    )
                else:
                    size += f" {data.pieces}"
                row = data.id, size, outcome
            except PmossError as error:
                # It is whole where it needs a library that only its user can trust.
                size = "foreign index" if isinstance(error, PluginError) else "damaged"
                row = folder.relative_to(top).as_posix(), size, ""
            rows.append((*row, f"{megabytes:.2f}", place))
    return rows


def verify(folders: Sequence[Path]) -> Iterator[str]:
    """The problems of the datasets in or under some folders, one line each.

    Each line names the file, and where it can the episode and the field. Two datasets of the same
    id under one of the folders are an error, too.
    """
    for folder in folders:
        paths = [folder] if (folder / METADATA).is_file() else list(dataset_folders(folder))
        if not paths:
            yield f"{folder}: holds no dataset"
        by_id: dict[str, list[Path]] = defaultdict(list)
        for path in paths:
            try:
                _, data = open_data(path)
            except DatasetError as error:
                yield str(error)
                continue
            except PluginError as error:
                yield f"{path}: {error}"
                continue
            by_id[data.id].append(path)
            yield from _problems(data)
        for id_, places in by_id.items():
            if len(places) > 1:
                yield f"id {id_}: more than once: {', '.join(map(str, places))}"


def _problems(data: Dataset | OtherData) -> Iterator[str]:
    if isinstance(data, Dataset):
        yield from data.problems()
        return
    try:
        data.verify()
    except DatasetError as error:
        yield str(error)
