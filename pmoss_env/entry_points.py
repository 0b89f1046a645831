"""Plugins of other packages: entry points by group, and objects by ``module:name``.

A package adds a backend, an agent or a command by an entry point in its ``pyproject.toml``::

    [project.entry-points."pmoss.backends"]
    mine = "my_package.backend:MyBackend"

Names come from the metadata of installed packages and from the command line, never from data files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pmoss_env.errors import PluginError, PmossError, UnknownNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints


def entries(group: str, own: Iterable[str] = ()) -> dict[str, EntryPoint]:
    """The entry points of a group by name, sorted; nothing is imported.

    Args:
        group: e.g. "pmoss.backends".
        own: names that pmoss_env itself uses.

    Raises:
        PluginError: two packages use the same name, or a package uses a name of pmoss_env.
    """
    own_names = set(own)
    by_name: dict[str, EntryPoint] = {}
    for entry in _installed(group, _search_path()):
        other = by_name.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise PluginError(
                f"entry point {entry.name!r} of {group!r} is both {_source(other)} and "
                f"{_source(entry)}: uninstall one of the two"
            )
        if entry.name in own_names:
            raise PluginError(
                f"entry point {entry.name!r} of {group!r}: {_source(entry)} takes a name that "
                "pmoss_env has itself; its author must choose another, or uninstall it"
            )
    return dict(sorted(by_name.items()))


def _search_path() -> tuple[tuple[str, int], ...]:
    """The folders of sys.path with their times of change: a new package changes one."""
    folders = [folder or os.getcwd() for folder in sys.path]
    # A missing folder has the time 0, so that its creation is a change.
    return tuple((f, os.stat(f).st_mtime_ns if os.path.exists(f) else 0) for f in folders)


@lru_cache(maxsize=32)
def _installed(group: str, search_path: tuple[tuple[str, int], ...]) -> EntryPoints:
    """The entry points of a group, cached: reading them takes milliseconds."""
    # Imported here because the import is slow.
    from importlib import metadata

    return metadata.entry_points(group=group)


def load(entry: EntryPoint) -> Any:
    """Imports the object that an entry point names.

    Raises:
        PluginError: the module cannot be imported, or lacks the object.
        PmossError: an error of this kind from the module, e.g. MissingExtraError.
    """
    try:
        return entry.load()
    except PmossError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{entry.name!r} of {entry.group!r}: {_source(entry)} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error


def find(kind: str, name: str, entry_points: Mapping[str, EntryPoint]) -> Any:
    """Imports the object of an entry point, or of ``module:name``.

    Args:
        kind: kind of object, for the error, e.g. "agent".
        name: a key of ``entry_points``, or an importable object, e.g. "my_agent:Mine". Its module
            may lie in the working folder; installed modules take precedence.

    Raises:
        PluginError: the object cannot be loaded.
    """
    if name in entry_points:
        return load(entry_points[name])
    module, colon, attribute = name.partition(":")
    if colon and module and attribute:
        add_working_folder()
        from importlib.metadata import EntryPoint

        return load(EntryPoint(name=name, value=name, group=kind))
    raise UnknownNameError(kind, name, (*entry_points, "<module>:<name>"))


def add_working_folder() -> None:
    """Appends the working folder to sys.path, after the installed modules."""
    # The `pmoss` program does not do this by itself, unlike `python -m`.
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())


def _source(entry: EntryPoint) -> str:
    package = f" of the package {entry.dist.name}" if entry.dist else ""
    return f"{entry.value!r}{package}"
