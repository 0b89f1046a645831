"""What a study is: its question, its function with settings, and its tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pmoss_datasets.checked import in_words
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.files import read_toml

SUFFIX = ".toml"
T = TypeVar("T")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


class TableDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table over the rows of a study.

    Attributes:
        columns: by heading a format of the row's fields, e.g. ``"{gain:+.0%}"``. Fields within
            fields are indexed: ``"{score[value]:.1f}"``. The form ``percent`` shows a share,
            ``interval 2`` an estimate with its bounds. A field that a row lacks leaves its cell
            empty.
        each: a field whose parts have a line each; their fields are beside the row's. Empty: a row
            has a line.
        where: a field that must be true in a row; with ``!`` before it, false. Empty: all rows.
        sort: a field by which rows rise; with ``-`` before it they fall. Empty: the order of cells.
    """

    columns: dict[str, str]
    each: str = ""
    where: str = ""
    sort: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a description.

    Attributes:
        title: in a few words.
        question: what its rows answer, in one sentence.
        function: a module of ``pmoss_benchmarks.functions``.
        settings: of the function; those of a variant override those of the study.
        small: settings that make the same study, not its variants, in about a minute.
        variants: by name, the settings in which each differs.
        tables: by name; "default" is shown first.
    """

    title: str
    question: str
    function: str = "play"
    settings: dict[str, Any] = {}
    small: dict[str, Any] = {}
    variants: dict[str, dict[str, Any]] = {}
    tables: dict[str, TableDescription] = {}


class Study(_File, frozen=True, kw_only=True):
    """A description that was read.

    Attributes:
        name: the file's, e.g. "headroom"; of a variant "headroom/machines".
        path: of the file.
    """

    name: str
    path: Path

    @property
    def is_variant(self) -> bool:
        """Whether it is one of several in its file."""
        return "/" in self.name


def read_study(folder: Path, name: str) -> Study:
    """A study, or a variant of one.

    Args:
        name: e.g. "headroom" or "headroom/machines"; or the path of a file of your own, such as
            "own.toml" or "own.toml/variant".

    Raises:
        UnknownNameError: there is no such study or variant.
        DescriptionError: a key is unknown, missing or of another type, or a study of the folder
            has the name of the file; names the file.
    """
    path, variant = Path(name), ""
    if path.suffix != SUFFIX and path.parent.suffix == SUFFIX:
        path, variant = path.parent, path.name
    if path.suffix == SUFFIX:
        base = path.stem
        if (folder / path.name).is_file() and path.resolve().parent != folder.resolve():
            raise DescriptionError(
                f"{path}: the study {base} is another one: give your file another name"
            )
    else:
        base, _, variant = name.partition("/")
        path = folder / f"{base}{SUFFIX}"
        if not _NAME.fullmatch(base) or not path.is_file():
            raise UnknownNameError("study", base, _names(folder))
    file: _File = read_toml(path, _convert)
    if variant and variant not in file.variants:
        raise UnknownNameError(f"variant of {base}", variant, file.variants)
    values = msgspec.structs.asdict(file)
    values["settings"] = {**file.settings, **file.variants.get(variant, {})}
    return Study(**values, name=f"{base}/{variant}" if variant else base, path=path)


def convert(values: Any, kind: type[T], where: str = "") -> T:
    """Plain values as a structure; DescriptionError names the key, after ``where``."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        fields: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
        raise DescriptionError(f"{where}{in_words(str(error), fields, values)}") from error


def studies_in(folder: Path) -> list[Study]:
    """All studies of a folder with their variants, by name."""
    studies = []
    for name in _names(folder):
        study = read_study(folder, name)
        # A study whose variants hold all that it runs has no rows of its own.
        if study.settings or not study.variants:
            studies.append(study)
        studies += [read_study(folder, f"{name}/{variant}") for variant in study.variants]
    return studies


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))


def _convert(data: dict[str, Any]) -> _File:
    file = convert(data, _File)
    for variant in file.variants:
        if not _NAME.fullmatch(variant):
            raise DescriptionError(f"variants.{variant}: take small letters, digits and hyphens")
    return file
