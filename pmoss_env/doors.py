"""What packages of others add: entry points by group, and objects by ``module:name``.

A package adds a backend, an agent or a command by an entry point in its ``pyproject.toml``::

    [project.entry-points."pmoss.backends"]
    mine = "my_package.backend:MyBackend"

Names come from the metadata of installed packages and from the command line, never from a file
of data.
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
        own: names that are taken already.

    Raises:
        PluginError: two packages give the same name different meanings, or a name is taken.
    """
    taken = set(own)
    found: dict[str, EntryPoint] = {}
    for entry in _installed(group, _search_path()):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise PluginError(
                f"entry point {entry.name!r} of {group!r} is both {_source(other)} and "
                f"{_source(entry)}: uninstall one of the two"
            )
        if entry.name in taken:
            raise PluginError(
                f"entry point {entry.name!r} of {group!r}: {_source(entry)} takes a name that "
                "pmoss_env has itself; its author must choose another, or uninstall it"
            )
    return dict(sorted(found.items()))


def _search_path() -> tuple[tuple[str, int], ...]:
    """The folders that hold packages, each with its last change: a new package changes one."""
    folders = [folder or os.getcwd() for folder in sys.path]
    # A folder that is not there changes when it is made.
    return tuple((f, os.stat(f).st_mtime_ns if os.path.exists(f) else 0) for f in folders)


@lru_cache(maxsize=32)
def _installed(group: str, search_path: tuple[tuple[str, int], ...]) -> EntryPoints:
    """A group of entry points. Reading them takes milliseconds, and names are asked for often."""
    # Only here: it takes as long to import as a few of our own modules.
    from importlib import metadata

    return metadata.entry_points(group=group)


def load(entry: EntryPoint) -> Any:
    """The object that an entry point names; its module is imported now.

    Raises:
        PluginError: the module cannot be imported, or lacks the object.
        PmossError: what the module itself raises of our errors, e.g. MissingExtraError.
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


def find(kind: str, name: str, known: Mapping[str, EntryPoint], others: Iterable[str] = ()) -> Any:
    """The object behind a name of ``known`` or behind ``module:name``.

    Args:
        kind: what it is, for the error, e.g. "agent".
        name: a key of ``known``, or the path of any importable object, e.g. "my_agent:Mine". Its
            module may lie in the working folder; installed modules come first.
        known: as entries() gives them.
        others: further names, for the error.

    Raises:
        UnknownNameError: neither.
        PluginError: it cannot be loaded.
    """
    if name in known:
        return load(known[name])
    module, colon, attribute = name.partition(":")
    if colon and module and attribute:
        look_in_working_folder()
        from importlib.metadata import EntryPoint

        return load(EntryPoint(name=name, value=name, group=kind))
    raise UnknownNameError(kind, name, (*known, *others, "<module>:<name>"))


def look_in_working_folder() -> None:
    """Lets modules of the working folder be imported; no file there hides an installed module."""
    # The `pmoss` program does not look there by itself, unlike `python -m`.
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())


def _source(entry: EntryPoint) -> str:
    package = f" of the package {entry.dist.name}" if entry.dist else ""
    return f"{entry.value!r}{package}"
