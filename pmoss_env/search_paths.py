"""Search paths for the TOML files of machines and workloads, beside the presets.

A package adds a folder by an entry point that names one of its packages. A user adds folders by an
environment variable, separated by colons::

    [project.entry-points."pmoss.machines"]
    mine = "my_package.machines"
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from pmoss_env.entry_points import entries
from pmoss_env.errors import DescriptionError, PluginError


def toml_files(presets: Path, group: str, variable: str) -> dict[str, Path]:
    """The files by name without ``.toml``, sorted. The files are not opened.

    Args:
        group: group of entry points, e.g. "pmoss.machines". Only parent packages are imported:
            ``a.b`` imports ``a``.
        variable: environment variable, e.g. "PMOSS_MACHINES_PATH".

    Raises:
        PluginError: an entry point that names no package.
        DescriptionError: a missing folder in the variable, or a name with two files.
    """
    paths: dict[str, Path] = {}
    for folder in _folders(presets, group, variable):
        for path in sorted(folder.glob("*.toml")):
            _check_same(paths.setdefault(path.stem, path), path, variable)
    return dict(sorted(paths.items()))


def file_of(name: str, presets: Path, group: str, variable: str) -> Path | None:
    """The file of a name, or the path itself if it ends in ``.toml``; None for an unknown name.

    Arguments and errors are those of toml_files(); only ``name`` must not have two files.
    """
    if name.endswith(".toml"):
        return Path(name)
    if "/" in name:
        return None
    paths = [folder / f"{name}.toml" for folder in _folders(presets, group, variable)]
    files = [path for path in paths if path.is_file()]
    for path in files:
        _check_same(files[0], path, variable)
    return files[0] if files else None


def _check_same(first: Path, other: Path, variable: str) -> None:
    if first.resolve() != other.resolve():
        raise DescriptionError(
            f"{first.stem!r} is both {first} and {other}: rename one, or take its folder out of "
            f"{variable}; a file's path is a name, too"
        )


def _folders(presets: Path, group: str, variable: str) -> Iterator[Path]:
    yield presets
    yield from _package_folders(group, tuple(sys.path))
    yield from _user_folders(variable)


@lru_cache
def _package_folders(group: str, path: tuple[str, ...]) -> list[Path]:
    """The folders of the packages that are installed on ``path``."""
    folders: list[Path] = []
    for entry in entries(group).values():
        try:
            spec = find_spec(entry.value)
        except (ImportError, ValueError):
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise PluginError(f"{entry.name!r} of {group!r}: {entry.value!r} is no package")
        folders += map(Path, spec.submodule_search_locations)
    return folders


def _user_folders(variable: str) -> Iterator[Path]:
    for name in filter(None, os.environ.get(variable, "").split(os.pathsep)):
        if not Path(name).is_dir():
            raise DescriptionError(f"{variable} names {name!r}: there is no such folder")
        yield Path(name)
