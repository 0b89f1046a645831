"""The index of datasets: one line each, to choose by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pmoss_datasets.quality import state_action_coverage, trajectory_quality
from pmoss_datasets.storage import Dataset
from pmoss_datasets.suite import licence_of

#: What a line holds, in the order of its columns.
COLUMNS = (
    *("id", "domain", "tier", "episodes", "steps", "bytes", "checksum", "licence", "unit"),
    *("reference_low", "reference_high", "mean", "quality", "coverage"),
)


def line(dataset: Dataset, licence: str = "") -> dict[str, Any]:
    """The row of a dataset in the index, plain JSON, by the names of COLUMNS.

    ``checksum`` is that of the episodes, whatever form they are kept in, and ``bytes`` the size of
    the compact form. ``reference_low`` scores 0 and ``reference_high`` 100. ``mean`` is that of all
    episodes; all three are in ``unit``. ``quality`` and ``coverage`` are TQ and SACo. What is not
    known is None.
    """
    domain, scores = dataset.domain, dataset.metadata.reference_scores
    low, high = (scores.get(name, {}).get("mean") for name in domain.references[:2])
    return {
        "id": dataset.id,
        "domain": domain.name,
        "tier": dataset.id.rpartition("/")[2].rpartition("-v")[0],
        "episodes": len(dataset),
        "steps": int(dataset.lengths.sum()),
        "bytes": sum(path.lstat().st_size for path in dataset.path.iterdir()),
        "checksum": dataset.checksum,
        "licence": licence or licence_of(dataset),
        "unit": domain.unit,
        "reference_low": low,
        "reference_high": high,
        "mean": float(dataset.column(domain.outcome).mean()),
        "quality": trajectory_quality(dataset),
        "coverage": state_action_coverage(dataset),
    }


def as_table(lines: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the index for readers."""
    head = ["dataset", "episodes", "steps", "MB", "score 0", "score 100", "mean", "unit"]
    rows = [
        [
            f"`{row['id']}`",
            f"{row['episodes']:,}",
            f"{row['steps']:,}",
            f"{row['bytes'] / 1e6:.2f}",
            *(_number(row[name], 1) for name in ("reference_low", "reference_high", "mean")),
            str(row["unit"]),
            *(_number(row[name], 2) for name in ("quality", "coverage")),
            f"`{row['checksum'][:12]}`",
        ]
        for row in lines
    ]
    return [*head, "TQ", "SACo", "checksum"], rows


def _number(value: float | None, digits: int) -> str:
    # Adding nothing turns a rounded -0.0 into 0.0.
    return "" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"
