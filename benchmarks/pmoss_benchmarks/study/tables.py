"""Tables and figures of stored rows: headings and cells, without a word of prose."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

import numpy as np

from pmoss_benchmarks.study.description import Study, TableDescription
from pmoss_benchmarks.study.function import Rows, load_function
from pmoss_benchmarks.study.store import StoredStudy
from pmoss_datasets.evaluation.statistics import LEAST
from pmoss_env.errors import DescriptionError, UnknownNameError, closest

_log = logging.getLogger(__name__)

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

    Raises:
        UnknownNameError: there is no such table; see also select().
        DescriptionError: see select().
    """
    rows = select(stored, **where)
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


def select(stored: StoredStudy, **where: Any) -> list[Mapping[str, Any]]:
    """The rows whose fields have these values; a list names several values.

    Raises:
        UnknownNameError: no row has such a field, or such a value there.
        DescriptionError: no row has all of these values.
    """
    chosen = list(stored.rows)
    for field, value in where.items():
        wanted = value if isinstance(value, list | tuple) else [value]
        values = [row[field] for row in stored.rows if field in row]
        if not values:
            fields = {name for row in stored.rows for name in row}
            raise UnknownNameError(f"column of {stored.study}", field, fields)
        for each in wanted:
            if each not in values:
                raise UnknownNameError(f"{field} of {stored.study}", each, set(map(str, values)))
        chosen = [row for row in chosen if row.get(field) in wanted]
    if where and not chosen:
        raise DescriptionError(f"no row of {stored.study} has {where}: take other values")
    return chosen


def interval(
    estimate: Any,
    digits: int = 1,
    scale: float = 1.0,
    sign: str = "",
    trainings: int | None = None,
) -> str:
    """An estimate with its bounds.

    Args:
        estimate: with ``value``, ``low`` and ``high``, as fields or keys. Without bounds only the
            value is shown; nothing where it is None, or its value is.
        digits: behind the point.
        scale: of all three.
        sign: "+": positive values have one.
        trainings: that it is of; fewer than LEAST have no bounds. None: nothing was trained.
    """
    plain = estimate if isinstance(estimate, Mapping) or not estimate else vars(estimate)
    if not plain or plain["value"] is None:
        return ""
    value = f"{scale * plain['value']:{sign}z.{digits}f}"
    if plain.get("low") is None or (trainings is not None and trainings < LEAST):
        return value
    return f"{value} [{scale * plain['low']:z.{digits}f}, {scale * plain['high']:z.{digits}f}]"


def side(estimate: Any) -> str:
    """Whether the interval of an estimate lies "above" 0, "below" it, or is "level" with it.

    Without bounds it is level, too.
    """
    bounds = estimate if isinstance(estimate, Mapping) else vars(estimate)
    if bounds["low"] is None or bounds["high"] is None:
        return "level"
    return "above" if bounds["low"] > 0 else "below" if bounds["high"] < 0 else "level"


def bold_inside(value: float, accepted: Mapping[str, Any]) -> str:
    """A figure of a Markdown table, bold where it lies between ``low`` and ``high``."""
    text = f"{value:.3g}"
    return f"**{text}**" if accepted["low"] <= value <= accepted["high"] else text


def _described(table: TableDescription, rows: Rows) -> TableOfRows:
    if table.each:
        rows = [{**row, **part} for row in rows for part in row[table.each]]
    if table.where:
        wanted = not table.where.startswith("!")
        rows = [row for row in rows if bool(row.get(table.where.lstrip("!"))) is wanted]
    if table.sort:
        falls = table.sort.startswith("-")
        rows = sorted(rows, key=lambda row: row[table.sort.lstrip("-")], reverse=falls)
    _warn_of_unknown_fields(table, rows)
    return table_of(rows, table.columns)


def _warn_of_unknown_fields(table: TableDescription, rows: Rows) -> None:
    """Names columns that stay empty: their field is in no row."""
    stored_fields = {field for row in rows for field in row}
    for heading, form in table.columns.items():
        for field in _fields(form):
            name = re.split(r"[.\[]", field)[0]
            if rows and name and name not in stored_fields:
                near = closest(name, stored_fields)
                hint = f"; did you mean {near!r}?" if near else ""
                _log.warning("column %r: no row has the field %r%s", heading, name, hint)


def _fields(form: str) -> list[str]:
    """The fields that a column names."""
    try:
        return [field or "" for _, field, _, _ in Formatter().parse(form)]
    except ValueError as error:
        raise DescriptionError(f"column {form!r}: {error}") from error


class _Forms(Formatter):
    """Forms of numbers, with ``percent`` and ``interval`` and their digits behind the point."""

    def format_field(self, value: Any, format_spec: str) -> str:
        form, _, digits = format_spec.partition(" ")
        if form == "percent":
            return percent(value, int(digits or 0))
        if form == "interval":
            return interval(value, int(digits or 1))
        text: str = super().format_field(value, format_spec)
        return text


def percent(share: float, digits: int = 0) -> str:
    """A share in per cent, with its sign behind a space."""
    return f"{share:.{digits}%}".replace("%", " %")


#: By heading a format of a row's fields, or a function of the row.
Columns = Mapping[str, str | Callable[[Any], str]]


def table_of(rows: Iterable[Mapping[str, Any]], columns: Columns) -> TableOfRows:
    """A line for each row.

    Args:
        rows: of a study, or what was made of them.
    """
    return TableOfRows(
        list(columns), [[_cell(form, row) for form in columns.values()] for row in rows]
    )


def grouped(rows: Rows, *fields: str) -> dict[Any, list[Mapping[str, Any]]]:
    """Rows by the value of a field, or by the values of several as a tuple."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        values = tuple(row[field] for field in fields)
        groups.setdefault(values if len(fields) > 1 else values[0], []).append(row)
    return groups


def means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each field of the first row, over the rows that have it."""
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in rows[0]}


def _cell(form: str | Callable[[Any], str], row: Mapping[str, Any]) -> str:
    if callable(form):
        return form(row)
    try:
        return _Forms().vformat(form, (), row)
    except (KeyError, IndexError, TypeError, AttributeError):
        # The row lacks the field, or holds None there.
        return ""
    except ValueError as error:
        raise DescriptionError(f"column {form!r}: {error}") from error


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
