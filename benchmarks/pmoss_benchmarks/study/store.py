"""The one store of results: JSON lines, a header first, then runs and rows, each with a checksum.

::

    {"format": "pmoss-study", "format_version": 1, "study": "headroom", ...}
    {"cell": "@1f0c...", "command": "...", "version": "...", "machine": {...}, "code": {...}}
    {"cell": "machine=toy,...", "run": "1f0c...", "machine": "toy", ..., "row_crc32": 123}

A row names the run that made it. So rows of several commands and hosts stand in one file, and each
says where it comes from. A list that several rows hold stands in a line of its own, which they
name. So all policies of an episode share the throughput of Linux.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from pmoss_benchmarks.study.description import Study, read_study, studies_in
from pmoss_benchmarks.study.function import Rows
from pmoss_env.errors import DatasetError, UnsupportedError, few
from pmoss_env.result_files import read_rows, write_rows

_log = logging.getLogger(__name__)

#: Files of version 1 have no lines of lists.
FORMAT, FORMAT_VERSION = "pmoss-study", 2
SUFFIX = ".jsonl"
#: How the keys of runs begin.
RUN = "@"
#: How the keys of lists begin, and the field of a row that names one.
LIST = "@list:"
#: Values of the shortest list that gets a line of its own.
SHORTEST = 10
#: Fields of a row that are no result.
RESERVED = ("cell", "run")


class _Code(msgspec.Struct):
    """The digests of a run's code; see pmoss_env.provenance.code_of()."""

    modules: list[str]
    native: list[str]
    digests: dict[str, str]
    form: int = 1


class _Machine(msgspec.Struct):
    """What every run says of its machine."""

    cpu_model: str


class _Run(msgspec.Struct):
    """What every run says."""

    command: str
    version: str
    machine: _Machine
    code: _Code | None = None


@dataclass(frozen=True)
class StoredStudy:
    """The rows of a study as they lie there.

    Attributes:
        path: of the file.
        study: its name.
        settings: what every row depends on.
        keys: the fields of a cell.
        runs: by identifier what made rows: ``command``, ``version``, ``date``, ``machine`` and
            ``code``.
        rows: in the order of the cells: fields of the cell, then those of its result.
    """

    path: Path
    study: str
    settings: Mapping[str, Any]
    keys: Sequence[str]
    runs: Mapping[str, Mapping[str, Any]]
    rows: Rows

    def cell_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The cell of a row."""
        return {key: row[key] for key in self.keys}

    def write(self) -> None:
        """Writes the file whole or not at all. Runs without rows are left out."""
        used = {row["run"] for row in self.rows}
        lines = [{"cell": RUN + name, **run} for name, run in self.runs.items() if name in used]
        lists, rows = _without_repeated_lists(self.rows)
        header = header_of(self.study, self.settings, self.keys)
        write_rows(self.path, header, [*lines, *lists, *rows])


def file_of(folder: Path, study: str) -> Path:
    """Where the rows of a study lie."""
    return folder / f"{study}{SUFFIX}"


def header_of(study: str, settings: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The first line of a file."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "study": study,
        "settings": dict(settings),
        "keys": list(keys),
    }


def header_to_go_on(
    path: Path, study: str, settings: Mapping[str, Any], keys: Sequence[str]
) -> dict[str, Any]:
    """The first line with which rows are appended to a file.

    A file that an earlier release began keeps its version: appended rows are the same in all
    versions, and write() makes today's of them.
    """
    header = header_of(study, settings, keys)
    try:
        version = read_rows(path)[0].get("format_version")
    except DatasetError:  # it is not there, or empty; what else is wrong, the first row finds
        return header
    if isinstance(version, int) and 1 <= version < FORMAT_VERSION:
        header["format_version"] = version
    return header


def read_stored(path: Path) -> StoredStudy:
    """The whole rows of a file, also of one that a command still writes.

    Raises:
        DatasetError: the file cannot be read, or is no store of a study.
    """
    header, lines = read_rows(path)
    version = header.get("format_version")
    if header.get("format") != FORMAT or version not in range(1, FORMAT_VERSION + 1):
        raise DatasetError(
            f"{path}: is no file of format {FORMAT} {FORMAT_VERSION}: `pmoss study run` writes one"
        )
    runs, rows = whole_rows(path, lines)
    try:
        return StoredStudy(path, header["study"], header["settings"], header["keys"], runs, rows)
    except KeyError as error:
        raise DatasetError(f"{path}: its first line lacks {error}") from error


def whole_rows(
    path: Path, lines: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Mapping[str, Any]], Rows]:
    """The runs and the rows among the lines of a file, which is named in warnings and errors.

    A row whose run or list was damaged is left out, with a warning. Of two rows of one cell the
    last counts, with a warning where they differ.

    Raises:
        DatasetError: a line is of no run, list or row.
    """
    runs: dict[str, Mapping[str, Any]] = {}
    lists: dict[str, Any] = {}
    rows: dict[str, Mapping[str, Any]] = {}
    changed: list[str] = []
    for line in lines:
        name = line.get("cell")
        if not isinstance(name, str):
            raise DatasetError(f"{path}: a line has no cell: {json.dumps(line):.60}")
        if name.startswith(LIST) and "values" in line:
            lists[name] = line["values"]
        elif name.startswith(RUN):
            try:
                msgspec.convert(line, _Run)
            except msgspec.ValidationError as error:
                raise DatasetError(f"{path}: run {name!r}: {error}") from error
            runs[name.removeprefix(RUN)] = {k: v for k, v in line.items() if k != "cell"}
        else:
            if name in rows and rows[name] != line:
                changed.append(name)
            rows[name] = line
    whole = [
        _replaced(row, lambda value: _list_of(value, lists))
        for row in rows.values()
        if str(row.get("run")) in runs and _lists_in(row) <= lists.keys()
    ]
    if lost := len(rows) - len(whole):
        _log.warning("%s: %d rows lack the line of their run or of a list: left out", path, lost)
    if changed:
        _log.warning("%s: of several rows the last counts: %s", path, few(changed, 3))
    return runs, whole


def _lists_in(value: Any) -> set[str]:
    """The names of the lists that a row names."""
    names: set[str] = set()

    def note(part: Any) -> Any:
        if isinstance(part, dict) and LIST in part:
            names.add(str(part[LIST]))
        return part

    _replaced(value, note)
    return names


def _without_repeated_lists(rows: Rows) -> tuple[list[dict[str, Any]], Rows]:
    """The lines of the lists that stand in several places, and the rows that name them."""
    name_of: dict[str, str] = {}
    times: Counter[str] = Counter()

    def text_of(value: Any) -> str:
        plain = isinstance(value, (list, tuple)) and len(value) >= SHORTEST
        return json.dumps(value) if plain else ""

    def count(value: Any) -> Any:
        if text := text_of(value):
            times[text] += 1
        return value

    def named(value: Any) -> Any:
        text = text_of(value)
        if not text or times[text] < 2:
            return value
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return {LIST: name_of.setdefault(text, LIST + digest)}

    for row in rows:
        _replaced(row, count)
    named_rows = [_replaced(row, named) for row in rows]
    return [
        {"cell": name, "values": json.loads(text)} for text, name in name_of.items()
    ], named_rows


def _list_of(value: Any, lists: Mapping[str, Any]) -> Any:
    """The list that a value names, else the value."""
    return lists[value[LIST]] if isinstance(value, dict) and LIST in value else value


def _replaced(value: Any, by: Callable[[Any], Any]) -> Any:
    """A value with all that it holds replaced; what a list holds stays as it is."""
    if isinstance(value, Mapping):
        value = {key: _replaced(one, by) for key, one in value.items()}
    return by(value)


class Results:
    """The descriptions and stored rows of a checkout, read once.

    Attributes:
        descriptions: folder of the studies.
        folder: of the results.
        read: rows by study, of those that were asked for.
    """

    def __init__(self, root: Path) -> None:
        self.descriptions = root / "benchmarks" / "studies"
        self.folder = root / "benchmarks" / "results"
        self.read: dict[str, StoredStudy] = {}

    @cached_property
    def studies(self) -> dict[str, Study]:
        """All descriptions by name."""
        return {study.name: study for study in studies_in(self.descriptions)}

    def study(self, name: str) -> Study:
        """A description; UnknownNameError."""
        return self.studies.get(name) or read_study(self.descriptions, name)

    def __getitem__(self, name: str) -> StoredStudy:
        """The rows of a study; DatasetError where there are none."""
        if name not in self.read:
            path = file_of(self.folder, self.study(name).name)
            if not path.exists():
                raise DatasetError(
                    f"{path}: is not there: `pmoss study run {name} --out {path}` makes it"
                )
            self.read[name] = read_stored(path)
        return self.read[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the studies that have rows."""
        return (name for name in self.studies if file_of(self.folder, name).exists())


def find_root(start: Path, option: str = "--root") -> Path:
    """The checkout that holds a folder.

    Args:
        option: of the command, which names another place.

    Raises:
        UnsupportedError: there are no committed results at or above it.
    """
    for folder in (start, *start.parents):
        if (folder / "benchmarks" / "results").is_dir() and (folder / "README.md").is_file():
            return folder
    raise UnsupportedError(
        f"{start}: is in no checkout: the results lie in benchmarks/results of the repository; "
        f"name it with {option}"
    )
