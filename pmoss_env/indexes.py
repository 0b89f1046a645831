"""The kinds of index, as the native registry has them (native/kinds/index_kind.hpp).

A kind says how it is served, recorded and profiled, and what its records are. Everything else asks
here: no other module knows kinds by name.

An index of a user's own is a shared library (native/include/pmoss/index.h). Its name is
"plugin:PATH". Its code runs in the process that measures, so it must be registered first. The
command line does that for the path that it names. A file, such as a dataset's metadata, cannot.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pmoss_env._native as _native
from pmoss_env._native import IndexKind, index_kinds
from pmoss_env.errors import PluginError, UnknownNameError
from pmoss_env.files import check_regular
from pmoss_env.platforms import require_host

#: What workloads and environments are for unless they say otherwise.
DEFAULT = "btree"
#: Before the path of a library in the name of its index.
PLUGIN = "plugin:"
_ELF = b"\x7fELF"


def index_names() -> list[str]:
    """The names of all kinds, in alphabetical order."""
    return [kind.name for kind in index_kinds()]


def index_kind(name: str) -> IndexKind:
    """A kind of index by its name.

    Raises:
        UnknownNameError: no such kind.
        PluginError: a library that nobody has registered.
    """
    for kind in index_kinds():
        if kind.name == name:
            return kind
    if name.startswith(PLUGIN):
        raise PluginError(
            f"index {name!r} is a library that this process has not registered. Its code would "
            f"run: if you trust it, call pmoss_env.indexes.register_plugin({name[len(PLUGIN) :]!r})"
            ", or name it on the command line, as `pmoss datasets verify --plugin PATH` does"
        )
    raise UnknownNameError("index", name, index_names())


def is_plugin(name: str) -> bool:
    """Whether an index is a user's library."""
    return name.startswith(PLUGIN)


def check_hint(name: str) -> str:
    """A sentence that says how the mistakes of a library are found; empty for other indexes.

    Args:
        name: of the index.
    """
    if not is_plugin(name):
        return ""
    path = name.removeprefix(PLUGIN)
    return f"The index is the library {path!r}: `pmoss check-index {shlex.quote(path)}` checks it."


def register_plugin(path: str | Path) -> str:
    """Makes an index of a shared library that includes pmoss/index.h; twice does no harm.

    Nothing of the library runs yet. It runs when the hardware backend measures it, in the
    measuring process.

    Args:
        path: of the library; "plugin:" may stand before it.

    Returns:
        The name of the index: "plugin:" and the absolute path.

    Raises:
        PluginError: no such file, or no shared library.
        PlatformError: a portable build, which serves no index.
    """
    require_host("an index of a shared library")
    library = Path(str(path).removeprefix(PLUGIN)).expanduser().resolve()
    try:
        check_regular(library)
        with library.open("rb") as file:
            found = file.read(len(_ELF))
    except OSError as error:
        raise PluginError(f"the index {str(library)!r} cannot be read: {error.strerror}") from error
    if found != _ELF:
        raise PluginError(
            f"{str(library)!r} is no shared library: build one with `cc -shared -fPIC` that "
            "includes pmoss/index.h"
        )
    return _native.register_plugin(str(library))


def holds_points(name: str) -> bool:
    """Whether the records of a kind are points in the plane, the same in all instances.

    The slices of such an index are the cells of a grid; those of others are key ranges.

    Raises:
        UnknownNameError: no such kind.
    """
    return index_kind(name).records == "points"
