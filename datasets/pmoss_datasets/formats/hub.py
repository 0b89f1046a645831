"""A folder that the Hugging Face hub takes as it is: datasets in Minari's form, cards, an index.

The folder is named after the namespace of the ids. Uploaded as ``USER/pmoss``, Minari downloads
from it (``MINARI_REMOTE=hf://USER``). Where it lies, Minari opens it, too: its parent is a folder
of Minari datasets. The hub's viewer shows the index.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pmoss_datasets.card import card
from pmoss_datasets.folder import DATA, METADATA, nothing_left, remove_leftovers, whole_folder
from pmoss_datasets.formats.minari import EXPORTED, to_minari
from pmoss_datasets.hub import CARD, COMPACT, check_sums, size_category, write_frame
from pmoss_datasets.index import COLUMNS, as_table, line
from pmoss_datasets.storage import Dataset, open_dataset
from pmoss_datasets.suite import licence_of
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.files import read_json, write_atomically

INDEX = "index.csv"
#: Where Minari looks for what a namespace holds.
_OF_NAMESPACE = "namespace_metadata.json"
_DOI = re.compile(r"10\.\d{4,9}/[\w.()/:;-]+")
_ABOUT = """# pmoss_env: offline datasets of placement

Which core serves which part of a main-memory index, and which memory holds its data?
These datasets hold logged decisions, with the hardware counters that they were made from.
Each lies in a folder of its own, in the form of [Minari](https://minari.farama.org), with a card.

```python
import minari

dataset = minari.load_dataset("{id}", download=True)
env = dataset.recover_environment()  # needs pmoss-env
```

`MINARI_REMOTE=hf://USER` names who keeps this repository. Without a download, the parent of this
folder is the value of `MINARI_DATASETS_PATH`. `sha256sum -c SHA256SUMS` checks all files.

The address of this folder is a mirror of pmoss: `PMOSS_MIRROR=hf://USER/pmoss`, or one of http,
https or file. It downloads the folders `compact`, whose episodes it plays again.

Every tenth episode is for validation: those whose number ends in 9.

For d3rlpy, `pmoss_datasets.formats.d3rlpy.to_d3rlpy(pmoss_datasets.load("{id}"))` makes its buffer.

## Index

{table}

Score 0 is the mean of random actions, score 100 what the reference policy or search reaches, and
the mean is that of all episodes. TQ is 0 for random actions and 1 for the reference. SACo counts
different pairs of state and action, relative to random actions. MB are those of the compact form.
The checksum is that of the episodes.

## Licence

{licences}
"""


def export(
    datasets: Sequence[Dataset],
    out: Path,
    licence: str = "",
    reward: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    form: str = "hdf5",
    doi: str = "",
) -> Path:
    """Writes ``out/NAMESPACE``. What an earlier, interrupted call has finished there is kept.

    Args:
        datasets: at least one, each of another id, all of one namespace.
        out: folder, which may have to be made.
        licence: of datasets that no committed recipe gives, an SPDX name.
        progress: called with (datasets done, datasets).
        doi: of the collection, if it has one, such as "10.5281/zenodo.1234".

    Returns:
        The folder that is uploaded.

    Raises:
        DatasetError: a dataset is given twice, is of another namespace, has no licence, or another
            one lies there; or a file there is not what an earlier call wrote.
    """
    _check(datasets, licence)
    if doi and not _DOI.fullmatch(doi):
        raise DescriptionError(f"doi {doi!r}: must look like 10.5281/zenodo.1234")
    folder = out / datasets[0].id.partition("/")[0]
    remove_leftovers(folder)
    _check_others(folder, [dataset.id for dataset in datasets])
    check_sums(folder)
    lines = []
    for number, given in enumerate(datasets):
        progress(number, len(datasets))
        dataset = open_dataset(given.path)  # its columns are freed with it
        target = out / dataset.id
        if target.exists():
            _check_same(target, dataset, reward, form)
        else:
            to_minari(dataset, out, reward, form=form)
        if not (target / COMPACT).exists():
            with whole_folder(target / COMPACT) as temporary:
                for name in (DATA, METADATA):  # nothing else that lies there is published
                    shutil.copyfile(dataset.path / name, temporary / name)
        row = line(dataset, "" if licence_of(dataset) else licence)
        lines.append(row)
        write_atomically(target / CARD, card(dataset, row["licence"]))
    with nothing_left(folder):
        _write_namespaces(folder, [dataset.id for dataset in datasets])
        write_atomically(folder / INDEX, _csv(lines))
        write_frame(folder, _facts(lines, form, doi), _about(lines, doi))
    progress(len(datasets), len(datasets))
    return folder


def _check(datasets: Sequence[Dataset], licence: str) -> None:
    """Refuses what cannot be exported before anything is written."""
    ids = [dataset.id for dataset in datasets]
    if not ids:
        raise DatasetError("no dataset to export: name one, or build some: pmoss data build")
    for number, dataset in enumerate(datasets):
        if dataset.id in ids[:number]:
            raise DatasetError(f"{dataset.path}: id {dataset.id}: is there twice: leave one out")
        if not dataset.id.startswith(namespace := f"{ids[0].partition('/')[0]}/"):
            raise DatasetError(
                f"{dataset.path}: id {dataset.id}: is not of the namespace {namespace} like "
                f"{ids[0]}: export each namespace by itself"
            )
        if not (licence or licence_of(dataset)):
            raise DatasetError(
                f"{dataset.path}: has no licence, for no committed recipe gives it: name one with "
                "--licence, such as CC-BY-4.0"
            )


def _check_others(folder: Path, ids: Sequence[str]) -> None:
    """Refuses a folder with datasets that its index would not name."""
    exported = [path.parents[1] for path in sorted(folder.glob(f"*/*/{EXPORTED}"))]
    for path in exported:
        if path.relative_to(folder.parent).as_posix() not in ids:
            raise DatasetError(f"{path}: is not among what is exported: name it, or remove it")


def _check_same(target: Path, dataset: Dataset, reward: str | None, form: str) -> None:
    """Refuses a folder that holds something else."""
    try:
        metadata = read_json(target / EXPORTED)
        stored = [metadata[key] for key in ("pmoss_checksum", "pmoss_reward", "data_format")]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DatasetError(f"{target}: exists and is no dataset of an export") from error
    same = stored == [dataset.checksum, dataset.reward(reward), form]
    # The checksum is of the episodes alone.
    if (copied := target / COMPACT / METADATA).exists():
        same = same and copied.read_bytes() == (dataset.path / METADATA).read_bytes()
    if not same:
        raise DatasetError(f"{target}: holds another dataset: remove it, or take another folder")


def _facts(lines: Sequence[Mapping[str, Any]], form: str, doi: str) -> dict[str, Any]:
    """Metadata of a card, as the hub names them."""
    configs: list[dict[str, Any]] = [{"config_name": "index", "data_files": INDEX}]
    if form == "parquet":  # else the viewer can show the index alone
        configs += [_splits(row) for row in lines]
    licences = sorted({row["licence"].lower() for row in lines})
    tags = {"offline-rl", "minari", "gymnasium", "scheduling", "numa", "database-index"}
    return {
        "license": licences[0] if len(licences) == 1 else licences,
        "pretty_name": "pmoss_env",
        "task_categories": ["reinforcement-learning"],
        "tags": sorted(tags | {row["domain"] for row in lines}),
        "size_categories": [size_category(sum(row["steps"] for row in lines))],
        "configs": configs,
        **({"doi": doi} if doi else {}),
    }


def _splits(row: Mapping[str, Any]) -> dict[str, Any]:
    """A dataset as the hub's viewer shows it: every tenth episode is for validation."""
    place = row["id"].partition("/")[2]
    splits = {"train": "*[0-8]", "validation": "*9"} if row["episodes"] > 9 else {"train": "*"}
    return {
        "config_name": place.replace("/", "-"),
        "data_files": [
            {"split": name, "path": f"{place}/data/{episodes}/*.parquet"}
            for name, episodes in splits.items()
        ],
    }


def _about(lines: Sequence[Mapping[str, Any]], doi: str) -> str:
    head, rows = as_table(lines)
    linked = [
        [f"[{cells[0]}]({cells[0].strip('`').partition('/')[2]}/{CARD})", *cells[1:]]
        for cells in rows
    ]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *linked])
    licences = {row["licence"] for row in lines}
    counts = [
        f"- {licence}: {sum(row['licence'] == licence for row in lines)} datasets"
        for licence in sorted(licences)
    ]
    cite = f"\n## Citation\n\nDOI: [{doi}](https://doi.org/{doi})\n" if doi else ""
    return _ABOUT.format(id=lines[0]["id"], table=table, licences="\n".join(counts)) + cite


def _write_namespaces(folder: Path, ids: Sequence[str]) -> None:
    """What Minari asks of a namespace before it downloads from it."""
    tasks = sorted({id_.rpartition("/")[0] for id_ in ids})
    namespace = {
        "description": "Offline datasets of placement on servers with several memories",
        "datasets": sorted(ids),
        "namespaces": tasks,
    }
    write_atomically(folder / _OF_NAMESPACE, json.dumps(namespace, indent=1) + "\n")
    for task in tasks:
        about = {"description": f"Datasets of the task {task.partition('/')[2]}"}
        path = folder.parent / task / _OF_NAMESPACE
        write_atomically(path, json.dumps(about, indent=1) + "\n")


def _csv(lines: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
