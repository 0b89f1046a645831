"""The index of the standard suite: sizes, checksums, reference scores, TQ and SACo of datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pmoss_benchmarks.study.function import Cell, Row, Rows, Run, check_names
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_datasets.catalog import load
from pmoss_datasets.index import as_table, line
from pmoss_datasets.suite import every_id


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


TABLES = {"default": lambda rows: TableOfRows(*as_table(rows))}


def missing(rows: Rows) -> list[str]:
    """Ids of the suite without a row."""
    ids = {row["id"] for row in rows}
    return [id_ for id_ in every_id() if id_ not in ids]
