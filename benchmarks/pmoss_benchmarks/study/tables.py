"""Tables and figures of stored rows: headings and cells, without a word of prose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pmoss_benchmarks.study.description import Study, TableDescription
from pmoss_benchmarks.study.function import load_function
from pmoss_benchmarks.study.store import StoredStudy
from pmoss_env.errors import UnknownNameError

DEFAULT = "default"


@dataclass(frozen=True)
class TableOfRows:
    """A table.

    Attributes:
        columns: headings; ">" before one aligns it to the right.
        rows: a text for each column.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def as_markdown(self) -> str:
        """A table of Markdown."""
        lines = [
            [column.lstrip(">") for column in self.columns],
            ["---:" if column.startswith(">") else "---" for column in self.columns],
            *self.rows,
        ]
        return "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)


def make_table(study: Study, stored: StoredStudy, name: str = DEFAULT, **where: Any) -> TableOfRows:
    """A table of a study by its name: of the description, or of the function.

    Args:
        study: whose table.
        stored: its rows.
        name: of the table.
        **where: fields that rows must have.

    Raises:
        UnknownNameError: there is no such table.
    """
    rows = select(stored.rows, **where)
    if name in study.tables:
        return _described(study.tables[name], rows)
    own = getattr(load_function(study.function), "TABLES", {})
    if name not in own:
        raise UnknownNameError(f"table of {study.name}", name, [*study.tables, *own])
    made: TableOfRows = own[name](rows)
    return made


def table_names(study: Study) -> list[str]:
    """The tables that a command shows: those of the description, and the function's default."""
    own = getattr(load_function(study.function), "TABLES", {})
    return list(dict.fromkeys([*(name for name in own if name == DEFAULT), *study.tables]))


def select(rows: Iterable[Mapping[str, Any]], **where: Any) -> list[Mapping[str, Any]]:
    """The rows whose fields have these values; a list names several values."""
    return [
        row
        for row in rows
        if all(
            row.get(field) in value if isinstance(value, list | tuple) else row.get(field) == value
            for field, value in where.items()
        )
    ]


def interval(estimate: Any, digits: int = 1, scale: float = 1.0, sign: str = "") -> str:
    """An estimate with its bounds.

    Args:
        estimate: with ``value``, ``low`` and ``high``, as fields or keys. Without bounds only the
            value is shown; nothing where it is None, or its value is.
        digits: behind the point.
        scale: of all three.
        sign: "+": positive values have one.
    """
    plain = estimate if isinstance(estimate, Mapping) or not estimate else vars(estimate)
    if not plain or plain["value"] is None:
        return ""
    value = f"{scale * plain['value']:{sign}.{digits}f}"
    if plain.get("low") is None:
        return value
    return f"{value} [{scale * plain['low']:.{digits}f}, {scale * plain['high']:.{digits}f}]"


def bold_inside(value: float, accepted: Mapping[str, Any]) -> str:
    """A figure of a Markdown table, bold where it lies between ``low`` and ``high``."""
    text = f"{value:.3g}"
    return f"**{text}**" if accepted["low"] <= value <= accepted["high"] else text


def _described(table: TableDescription, rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    if table.where:
        wanted = not table.where.startswith("!")
        rows = [row for row in rows if bool(row.get(table.where.lstrip("!"))) is wanted]
    if table.sort:
        falls = table.sort.startswith("-")
        rows = sorted(rows, key=lambda row: row[table.sort.lstrip("-")], reverse=falls)
    return TableOfRows(
        list(table.columns), [[_cell(text, row) for text in table.columns.values()] for row in rows]
    )


def _cell(text: str, row: Mapping[str, Any]) -> str:
    try:
        return text.format_map(row)
    except (KeyError, IndexError, TypeError, ValueError):
        # The row lacks the field, or holds None there.
        return ""


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
