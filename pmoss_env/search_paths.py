"""Folders of TOML files beside our own presets: machines and workloads of others.

A package adds a folder by an entry point that names a package of its own, whose folder holds the
files; a user adds folders by an environment variable, separated by colons::

    [project.entry-points."pmoss.machines"]
    mine = "my_package.machines"
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from pmoss_env.doors import entries
from pmoss_env.errors import DescriptionError, PluginError


def toml_files(presets: Path, group: str, variable: str) -> dict[str, Path]:
    """The files by name (without ``.toml``), sorted; the files are not opened.

    Args:
        presets: our own folder.
        group: of the entry points, e.g. "pmoss.machines". Nothing of their packages is executed
            but what lies above them: ``a.b`` imports ``a``.
        variable: of the environment, e.g. "PMOSS_MACHINES_PATH".

    Raises:
        PluginError: an entry point that names no package.
        DescriptionError: a folder of the variable that is not there, or a name with two files.
    """
    found: dict[str, Path] = {}
    for folder in (presets, *_of_packages(group), *_of_user(variable)):
        for path in sorted(folder.glob("*.toml")):
            other = found.setdefault(path.stem, path)
            if other.resolve() != path.resolve():
                raise DescriptionError(
                    f"{path.stem!r} is both {other} and {path}: rename one, or take its folder "
                    f"out of {variable}"
                )
    return dict(sorted(found.items()))


def file_of(name: str, presets: Path, group: str, variable: str) -> Path | None:
    """The file of a name, or of a path that ends in ``.toml``; None if there is none.

    A preset is found without a look at the other folders: what lies there cannot stand for it.

    Args:
        name: as people write it.
        presets: see toml_files().
        group: likewise.
        variable: likewise.
    """
    if name.endswith(".toml"):
        return Path(name)
    if "/" in name:
        return None
    preset = presets / f"{name}.toml"
    return preset if preset.is_file() else toml_files(presets, group, variable).get(name)


def _of_packages(group: str) -> Iterator[Path]:
    for entry in entries(group).values():
        try:
            spec = find_spec(entry.value)
        except (ImportError, ValueError):
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise PluginError(f"{entry.name!r} of {group!r}: {entry.value!r} is no package")
        yield from map(Path, spec.submodule_search_locations)


def _of_user(variable: str) -> Iterator[Path]:
    for name in filter(None, os.environ.get(variable, "").split(os.pathsep)):
        if not Path(name).is_dir():
            raise DescriptionError(f"{variable} names {name!r}: there is no such folder")
        yield Path(name)
