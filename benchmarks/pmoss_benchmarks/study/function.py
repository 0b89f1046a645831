"""What does the cells of a study: a module of ``pmoss_benchmarks.functions``.

A module has

- ``Settings``: a frozen dataclass. Its class attribute ``AXES`` names the settings that only choose
  cells: a study goes on with more machines or seeds without making its rows anew.
- ``cells(settings)``: a list of dicts of names and numbers, each a row.
- ``measure(run, cell)``: the row's other fields, plain JSON; the same bits in every process. A
  function that keeps something between cells has a class ``Work(run)`` with ``__call__(cell)`` in
  its place, and with ``close()`` where that holds something.

It may have

- ``modules(settings)``: further modules whose code decides the rows, which it does not import.
- ``prepare(run, progress)``: what cells share, such as data, made once before them.
- ``again(run, row)``: fields of a stored row that its records give again, made anew. Without it the
  whole cell is done again.
- ``TOLERANCES``: by field the relative difference up to which numbers made again are the same.
- ``TABLES``: by name a function of the rows that gives headings and cells, where a description's
  columns do not do.
- ``PLOTS``: by name a function of the rows that gives a matplotlib figure.
- ``summarise(settings, rows)``: plain values for the sentences of pages.
- ``MEASURES_HOST``: True where its figures are of the host that makes them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec

from pmoss_benchmarks.study.description import convert
from pmoss_env.errors import UnknownNameError

PACKAGE = "pmoss_benchmarks.functions"
#: Functions of other packages: a name and its module.
GROUP = "pmoss.studies"

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:
    # Commands that draw nothing do without matplotlib.
    Figure = Any

#: A setting that counts something.
Count = Annotated[int, msgspec.Meta(ge=1)]
Cell = dict[str, Any]
Row = dict[str, Any]
#: As they are stored.
Rows = Sequence[Mapping[str, Any]]
#: progress(what, done, total)
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


@dataclass(frozen=True)
class Run:
    """What a function is given.

    Attributes:
        settings: of the study, as the function's ``Settings``.
        data: folder of datasets.
        keep: folder of what is made once and used by several cells, such as checkpoints.
        results: folder of stored results of other studies.
    """

    settings: Any
    data: Path
    keep: Path
    results: Path


def load_function(name: str) -> ModuleType:
    """The module of a function.

    Only modules of the package and entry points of installed packages can be named: a description
    imports nothing else.

    Raises:
        UnknownNameError: there is no such function.
    """
    package = importlib.import_module(PACKAGE)
    own = {module.name for module in pkgutil.iter_modules(package.__path__)}
    if name in own:
        return importlib.import_module(f"{PACKAGE}.{name}")
    foreign = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in foreign:
        raise UnknownNameError("function of studies", name, [*own, *foreign])
    return cast(ModuleType, foreign[name].load())


def settings_of(function: ModuleType, values: Mapping[str, Any], where: str = "settings") -> Any:
    """The settings of a function from plain values; an error begins with ``where``.

    Raises:
        DescriptionError: a value is unknown, missing or of another type.
    """
    names = [field.name for field in fields(function.Settings)]
    for name in values:
        if name not in names:
            kind = "setting" if where == "settings" else f"setting of {where}"
            raise UnknownNameError(kind, name, names)
    return convert(dict(values), function.Settings, f"{where}: ")


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuses a name that is not among the known ones: UnknownNameError."""
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)


def identity_of(settings: Any) -> dict[str, Any]:
    """The settings on which every row depends, as plain JSON: all but those that choose cells."""
    axes = getattr(type(settings), "AXES", ())
    plain = cast(dict[str, Any], msgspec.to_builtins(asdict(settings)))
    return {name: value for name, value in plain.items() if name not in axes}


def name_of(cell: Cell) -> str:
    """The key of a cell, e.g. "machine=toy,seed=1"."""
    return ",".join(f"{key}={value}" for key, value in cell.items())
