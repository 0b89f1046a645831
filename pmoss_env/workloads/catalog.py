"""The catalogue of workloads: names, and paths of workload files."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pmoss_env._native as _native
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.files import FileStamp, check_regular, file_stamp
from pmoss_env.search_paths import file_of, toml_files
from pmoss_env.workloads.description import POINTS, SOSD, Workload
from pmoss_env.workloads.point_file import points_of_file

PRESETS = Path(__file__).parent / "presets"
#: Group and variable that add folders of workload files; see pmoss_env.search_paths.
GROUP, VARIABLE = "pmoss.workloads", "PMOSS_WORKLOADS_PATH"


def preset_names() -> list[str]:
    """The names of the presets; the registered ids do not depend on other packages."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def workload_names() -> list[str]:
    """The workload names for load_workload()."""
    return list(toml_files(PRESETS, GROUP, VARIABLE))


def load_preset(name: str) -> Workload:
    """Loads a preset; ``name`` is one of preset_names()."""
    path = PRESETS / f"{name}.toml"
    return _load(path, file_stamp(path))


def load_workload(name: str) -> Workload:
    """Loads a workload: a preset, a file on the search path, or the path of a ``.toml`` file.

    ``sosd:FILE`` is the preset ``lookups`` of all keys of a file in SOSD's format, ``points:FILE``
    the ranges of ``rtree-ranges`` on all points of a file; see ``keys`` of Workload.

    Raises:
        UnknownNameError: no file has this name.
        DescriptionError: an invalid or missing value, two files with this name, or no file of keys
            or points.
    """
    for prefix in (SOSD, POINTS):
        if name.startswith(prefix):
            return _of_file(prefix, Path(name.removeprefix(prefix)).absolute())
    path = file_of(name, PRESETS, GROUP, VARIABLE)
    if path is None:
        raise UnknownNameError("workload", name, [*workload_names(), "path/to/workload.toml"])
    return _load(path, file_stamp(path))


def _of_file(prefix: str, path: Path) -> Workload:
    """A preset on all keys or points of a file, which are drawn uniformly."""
    if prefix == SOSD:
        preset, queries = "lookups", "Point lookups of uniformly drawn keys"
        records = sorted_keys(str(path)).size
    else:
        preset, queries = "rtree-ranges", "Square ranges centred on uniformly drawn points"
        records = points_of_file(str(path)).size
    return replace(
        load_preset(preset),
        name=f"{prefix.strip(':')}-{path.name}",
        description=f"{queries} of {path.name}",
        source=str(path),
        records=records,
        keys=f"{prefix}{path}",
    )


@lru_cache(maxsize=4)
def sorted_keys(path: str) -> _native.SortedKeyFile:
    """The keys of a file in SOSD's format, checked once per process.

    Raises:
        DescriptionError: it cannot be read, or is cut, unsorted or of another format.
    """
    try:
        check_regular(path)
        return _native.SortedKeyFile(path)
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DescriptionError(
            f"{error}; a file is a count and that many ascending keys, of 64 bits each"
        ) from error


@lru_cache(maxsize=32)
def _load(path: Path, stamp: FileStamp) -> Workload:
    """Loads a workload; ``stamp`` is that of its file."""
    return Workload.from_toml(path)
