"""The index of the standard suite as a stored result: it grows with what is built somewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pmoss_benchmarks.report import write_report
from pmoss_datasets import Dataset
from pmoss_datasets.domain import domain_names
from pmoss_datasets.index import line
from pmoss_datasets.suite import SHIPPED, licence_of, suite_ids
from pmoss_env.errors import DescriptionError
from pmoss_env.files import read_json


def every_id() -> list[str]:
    """Ids of the standard suite of all domains, those that ship first."""
    ids = dict.fromkeys(SHIPPED)
    for domain in domain_names():
        ids |= dict.fromkeys(suite_ids(domain=domain))
    return list(ids)


def update_index(
    path: Path,
    datasets: Sequence[Dataset],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Looks at datasets of the suite, and writes the index after each.

    Args:
        path: of the index. Lines of datasets with the same checksum are kept as they are.
        datasets: those that are no part of the suite are left out.
        progress: called with (datasets done, datasets).

    Returns:
        All lines, in the order of the suite.

    Raises:
        DescriptionError: the file is no index.
    """
    lines = read_index(path)
    order = {id_: place for place, id_ in enumerate(every_id())}
    for number, dataset in enumerate(datasets):
        progress(number, len(datasets))
        known = lines.get(dataset.id, {}).get("checksum") == dataset.checksum
        if known or dataset.id not in order or not licence_of(dataset):
            continue
        lines[dataset.id] = line(dataset)
        ordered = sorted(lines.values(), key=lambda one: order.get(one["id"], len(order)))
        write_report(path, ["pmoss_datasets.index"], datasets=ordered)
    progress(len(datasets), len(datasets))
    return list(lines.values())


def read_index(path: Path) -> dict[str, dict[str, Any]]:
    """The lines of an index by id; none of a file that is not there yet.

    Raises:
        DescriptionError: the file is no index.
    """
    if not path.exists():
        return {}
    try:
        return {one["id"]: one for one in read_json(path)["datasets"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DescriptionError(f"{path}: is no index of datasets: write another file") from error
