"""The index of the standard suite: sizes, checksums, reference scores, TQ and SACo of datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pmoss_benchmarks.study.function import Cell, Row, Rows, Run, check_names
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_datasets.catalog import load
from pmoss_datasets.index import as_table, line
from pmoss_datasets.suite import every_id, recipe_of


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        ids: of the suite; none: all. Those that are not in the folder of datasets are built there.
    """

    AXES: ClassVar = ("ids",)

    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_names("dataset of the suite", self.ids, every_id())


def cells(settings: Settings) -> list[Cell]:
    """The datasets."""
    return [{"id": id_} for id_ in settings.ids or every_id()]


def measure(run: Run, cell: Cell) -> Row:
    """The line of a dataset; see pmoss_datasets.index.line()."""
    fields = line(load(cell["id"], run.data))
    del fields["id"]
    return fields


def again(run: Run, row: Row) -> Row:
    """The line without ``bytes``: the metadata name the host and the version that built it."""
    remade = measure(run, {"id": row["id"]})
    del remade["bytes"]
    return remade


def _missing(rows: Rows) -> TableOfRows:
    """Datasets without a row, with the steps and the size that the others let expect."""
    heads = ["dataset", "episodes", "steps", "MB, expected"]
    lines = []
    for id_ in missing(rows):
        recipe = recipe_of(id_)
        share, alike = _alike(rows, id_)
        steps = round(share * sum(row["steps"] for row in alike))
        size = _megabytes(rows, id_)
        expected = (f"{steps:,}", f"{size:.1f}") if alike else ("", "")
        lines.append([f"`{id_}`", f"{recipe.episodes:,}", *expected])
    return TableOfRows(heads, lines)


TABLES = {"default": lambda rows: TableOfRows(*as_table(rows)), "missing": _missing}


def missing(rows: Rows) -> list[str]:
    """Ids of the suite without a row."""
    ids = {row["id"] for row in rows}
    return [id_ for id_ in every_id() if id_ not in ids]


def missing_megabytes(rows: Rows) -> float:
    """The size that they are expected to have together."""
    return sum(_megabytes(rows, id_) for id_ in missing(rows))


def _alike(rows: Rows, id_: str) -> tuple[float, Rows]:
    """Datasets of the same task, else of the same domain, and episodes over those of them all."""
    recipe = recipe_of(id_)
    of_domain = [row for row in rows if row["domain"] == recipe.domain]
    alike = [row for row in of_domain if row["id"].split("/")[1] == recipe.task] or of_domain
    return recipe.episodes / sum(row["episodes"] for row in alike) if alike else 0.0, alike


def _megabytes(rows: Rows, id_: str) -> float:
    share, alike = _alike(rows, id_)
    return share * float(sum(row["bytes"] for row in alike)) / 1e6
